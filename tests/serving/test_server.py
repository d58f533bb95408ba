import math
import os
import re
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from accelbench.errors import UserError
from accelbench.isolation.usage_sampler import children
from accelbench.schema.cell import Server
from accelbench.schema.vocab import Protocol
from accelbench.serving import server as serving
from accelbench.serving.batcher import due_ns, num_requests
from accelbench.serving.server import Service, serve

NUM = 50


def sleeps(seconds):
    return lambda batch: time.sleep(seconds)


def make(*workers, **settings):
    return Service(**{"pool": range(7), "join": list, "workers": workers or [sleeps(0.005)], **settings})


def run(service, protocol=Protocol.server, *, seed=1, until_s=math.inf, rate=100.0, num=NUM, **settings):
    server = Server(rate=rate, duration_s=num / rate, **settings)
    return serve(service, protocol, server, seed, until_s)


def others(served):
    """The defects without those about late requests, which a busy machine explains."""
    return [defect for defect in served.defects if "late (p99)" not in defect]


def test_every_request_is_answered_in_order_by_one_worker_and_no_earlier_than_it_can_be():
    served = run(make(), rate=150.0)
    assert [len(times) for times in (served.due, served.issued, served.dispatched, served.done)] == [NUM] * 4
    assert (served.due <= served.issued).all()
    assert (served.issued <= served.dispatched).all()
    assert (served.done - served.dispatched >= 5e6).all()
    assert (served.dispatched[1:] >= served.done[:-1]).all()
    assert (served.done - served.due).max() > 6e6  # some requests waited in the queue
    assert (served.batches, served.num_padded, served.num_errors) == ({1: NUM}, 0, 0)
    assert (served.error, served.ended_early, others(served)) == (None, None, [])
    assert served.busy_ns == (served.done - served.dispatched).sum()


@pytest.mark.parametrize(
    ("max_batch", "delay_ms", "sizes", "joined"),
    [
        (8, 300.0, (), [[0, 1, 2]]),  # the oldest request has waited for the delay
        (8, 300.0, (1, 2, 4, 8), [[0, 1, 2, 2]]),  # padded with the last request
        (1, 9e3, (), [[0], [1], [2]]),  # full batches; the delay is never reached
    ],
)
def test_a_batch_is_computed_once_it_is_full_or_its_oldest_request_has_waited(max_batch, delay_ms, sizes, joined):
    batches = []
    served = run(make(batches.append, max_batch=max_batch, sizes=sizes), rate=1000.0, num=3, max_delay_ms=delay_ms)
    assert batches == joined
    assert served.num_padded == sum(map(len, joined)) - 3
    waited_ms = (served.dispatched[0] - served.due[0]) / 1e6
    assert waited_ms >= 300 if max_batch == 8 else waited_ms < 9e3


def test_workers_compute_at_the_same_time_each_in_the_thread_that_was_prepared():
    earlier = set(threading.enumerate())
    both, threads, prepared = threading.Barrier(2), {0: set(), 1: set()}, {}

    def worker(index):
        def compute(_):
            both.wait(10)  # raises if the other worker does not compute at the same time
            threads[index].add(threading.get_ident())

        return compute

    prepare = lambda index: prepared.update({index: threading.get_ident()})  # noqa: E731
    served = run(make(worker(0), worker(1), prepare=prepare), rate=1000.0)
    assert (served.num_errors, served.num_workers) == (0, 2)
    assert {index: {ident} for index, ident in prepared.items()} == threads
    assert prepared[0] == threading.get_ident() != prepared[1]
    assert set(threading.enumerate()) <= earlier


@pytest.mark.parametrize(
    ("protocol", "rate", "num", "size"),
    [(Protocol.server, 1e3, NUM, 1), (Protocol.single_stream, 1e9, 64, 1), (Protocol.multi_stream, 1e9, 662, 8)],
)
def test_what_raises_is_a_miss_and_its_first_error_is_kept(protocol, rate, num, size):
    calls = iter(range(10_000))

    def fails(batch):
        if next(calls) in (3, 5):
            raise ValueError(f"one\nof {len(batch)}")

    served = run(make(fails, max_batch=size), protocol, rate=rate)  # a closed loop runs the fewest queries
    assert (len(served.due), served.num_errors, served.error) == (num, 2, f"ValueError: one of {size}")
    assert np.flatnonzero(served.done < 0).tolist() == [3, 5]
    assert others(served) == []


def _raise(error):
    raise error


@pytest.mark.parametrize(("where", "index"), [("prepare", 0), ("compute", 1)])
def test_memory_that_has_run_out_ends_the_run_and_its_threads(where, index):
    earlier = set(threading.enumerate())
    failing = [sleeps(0.001), sleeps(0.001)]
    if where == "compute":
        failing[index] = lambda _: _raise(RuntimeError("CUDA out of memory"))
    prepare = lambda worker: _raise(MemoryError()) if worker == index and where == "prepare" else None  # noqa: E731
    with pytest.raises(MemoryError if where == "prepare" else RuntimeError):
        run(make(*failing, prepare=prepare), rate=500.0)
    assert set(threading.enumerate()) <= earlier
    assert _generators() == []


def _generators():
    commands = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in children(os.getpid())}
    return [pid for pid, command in commands.items() if b"generator.py" in command]


def test_a_killed_generator_makes_the_run_invalid():
    calls = iter(range(10_000))

    def kills(_):
        if next(calls) == 10:
            os.kill(_generators()[0], signal.SIGKILL)

    served = run(make(kills))
    assert 10 < len(served.due) < NUM
    assert served.num_errors == 0
    assert others(served) == [f"the process that issues requests ended after {len(served.due)} of {NUM}"]


def test_late_requests_make_the_run_invalid():
    due = due_ns(1000, 100.0, seed=1)
    server = Server(rate=100.0, latency_ms=50.0)
    few_late = due + 600_000 * (np.arange(1000) % 200 == 0)  # 0.5 % are late
    assert list(serving._lateness(due, due + 400_000, server)) == list(serving._lateness(due, few_late, server)) == []
    (late,) = serving._lateness(due, due + 600_000, server)
    assert late.startswith("requests were issued 0.6 ms late (p99), above the limit of 0.5 ms")
    (late,) = serving._lateness(due, few_late, replace(server, percentile=99.9))
    assert "0.6 ms late (p99.9)" in late


def test_a_run_ends_early_once_a_request_waits_for_long_with_the_requests_whose_fate_is_known():
    served = run(make(sleeps(0.02)), rate=500.0, num=20_000, latency_ms=10.0)
    assert re.fullmatch(r"\d+ requests wait, the first of them for 2.\d s", served.ended_early)
    answered, missed = served.done >= 0, served.done < 0
    assert 50 < answered.sum() < 1000
    assert missed.sum() == served.num_errors > 0
    assert answered[: answered.sum()].all()
    assert others(served) == []


@pytest.mark.parametrize("protocol", [Protocol.server, Protocol.offline])
def test_a_run_ends_early_at_the_cells_time_limit(protocol):
    served = run(make(sleeps(0.01), max_batch=2), protocol, num=1000, until_s=time.perf_counter() + 0.4)
    assert served.ended_early == "the cell's time limit"
    assert 0 < len(served.due) <= 80
    with pytest.raises(RuntimeError, match="no request was answered: the cell's time limit"):
        run(make(), protocol, until_s=0.0)


def test_offline_all_requests_are_due_at_once_and_batches_are_full():
    served = run(make(sleeps(0.005), sleeps(0.005), max_batch=4), Protocol.offline, num=10)
    assert set(served.due) == set(served.issued) == {served.dispatched.min()}
    assert set(served.batches) == {4}
    assert served.done.max() - served.due[0] >= 1e8


def test_arrivals_have_the_rate_and_are_as_irregular_as_a_poisson_process():
    due = due_ns(10_000, 500.0, seed=1)
    gaps = np.diff(due)
    assert (due.dtype, len(due)) == (np.int64, 10_000)
    assert gaps.min() >= 0
    assert 19.9e9 < due[-1] <= 20e9
    assert gaps.mean() == pytest.approx(2e6, rel=0.01)
    assert gaps.std() == pytest.approx(gaps.mean(), rel=0.05)  # as in an exponential distribution


def test_too_many_requests_are_refused():
    assert [num_requests(Server(rate=rate, duration_s=20.0)) for rate in (50.0, 0.01)] == [1000, 1]
    for rate in (1.1e5, 1e308):
        with pytest.raises(UserError, match="more than 2,000,000 requests in server.duration_s=20: use a lower rate"):
            num_requests(Server(rate=rate, duration_s=20.0))
