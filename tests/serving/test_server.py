import math
import os
import re
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from accelbench.errors import UserError
from accelbench.isolation.usage_sampler import children
from accelbench.schema.cell import Protocol, Server, Verdict
from accelbench.serving.server import TIME_LIMIT, Service, due_ns, lateness, num_requests, serve, summarised

NUM = 50


def sleeps(seconds):
    return lambda batch: time.sleep(seconds)


def make(*workers, **settings):
    return Service(**{"pool": range(7), "join": list, "workers": workers or [sleeps(0.005)], **settings})


def run(service, protocol=Protocol.server, *, seed=1, until_s=math.inf, rate=100.0, num=NUM, **settings):
    server = Server(rate=rate, duration_s=num / rate, **settings)
    return serve(service, protocol, server, seed, until_s)


def others(served):
    """The defects but those about late requests, which a busy machine explains."""
    return [defect for defect in served.defects if "late (p99)" not in defect]


def test_every_request_is_answered_in_order_by_one_worker_and_no_earlier_than_it_can_be():
    served = run(make(), rate=150.0)
    due, issued, dispatched, done = served.times
    assert served.times.shape == (4, NUM)
    assert (due <= issued).all()
    assert (issued <= dispatched).all()
    assert (done - dispatched >= 5e6).all()
    assert (dispatched[1:] >= done[:-1]).all()
    assert (done - due).max() > 6e6  # some requests waited in the queue
    kept = served.serving
    assert (kept.batches, kept.num_padded, kept.num_errors) == ({"1": NUM}, 0, 0)
    assert (kept.error, kept.ended_early, others(served)) == (None, None, [])
    assert kept.busy_share == pytest.approx((done - dispatched).sum() / 1e9 / kept.duration_s)


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
    assert served.serving.num_padded == sum(map(len, joined)) - 3
    waited_ms = (served.times[2, 0] - served.times[0, 0]) / 1e6
    assert waited_ms >= 300 if max_batch == 8 else waited_ms < 9e3


def test_workers_compute_at_the_same_time_each_in_the_thread_that_was_prepared():
    earlier = set(threading.enumerate())
    both, threads, prepared = threading.Barrier(2), {0: set(), 1: set()}, {}

    def worker(index):
        def compute(_):
            both.wait(10)  # raises if the other worker does not compute at the same time
            threads[index].add(threading.get_ident())

        return compute

    served = run(make(worker(0), worker(1), prepare=lambda i: prepared.update({i: threading.get_ident()})), rate=1000.0)
    assert served.serving.num_errors == 0
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
    kept = served.serving
    assert (kept.num_requests, kept.num_errors, kept.error) == (num, 2, f"ValueError: one of {size}")
    assert np.flatnonzero(served.times[3] < 0).tolist() == [3, 5]
    assert others(served) == []


@pytest.mark.parametrize("where", ["prepare", "compute"])
def test_memory_that_has_run_out_ends_the_run_and_its_threads(where):
    earlier = set(threading.enumerate())
    fails = Mock(side_effect=[RuntimeError("out of memory"), *[None] * NUM])
    service = make(sleeps(0.001), fails) if where == "compute" else make(*[sleeps(0.001)] * 2, prepare=fails)
    with pytest.raises(RuntimeError, match="out of memory"):
        run(service, rate=500.0)
    assert set(threading.enumerate()) <= earlier
    assert _generators() == []


def _generators():
    commands = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in children(os.getpid())}
    return [pid for pid, command in commands.items() if b"generator.py" in command]


def test_a_killed_generator_makes_the_run_invalid():
    calls = iter(range(10_000))
    served = run(make(lambda _: os.kill(_generators()[0], signal.SIGKILL) if next(calls) == 10 else None))
    num = served.serving.num_requests
    assert 10 < num < NUM
    assert served.serving.num_errors == 0
    assert others(served) == [f"the process that issues requests ended after {num} of {NUM}"]


def test_late_requests_make_the_run_invalid():
    due = due_ns(1000, 100.0, seed=1)
    server = Server(rate=100.0, latency_ms=50.0)
    few_late = due + 600_000 * (np.arange(1000) % 200 == 0)  # 0.5 % are late
    assert lateness(due, due + 400_000, server) == lateness(due, few_late, server) == []
    (late,) = lateness(due, due + 600_000, server)
    assert late.startswith("requests were issued 0.6 ms late (p99), above 1 % of server.latency_ms: use fewer threads")
    (late,) = lateness(due, few_late, replace(server, percentile=99.9))
    assert "0.6 ms late (p99.9)" in late


def test_a_run_ends_early_once_a_request_waits_for_long_with_the_requests_whose_fate_is_known():
    served = run(make(sleeps(0.02)), rate=500.0, num=20_000, latency_ms=10.0)
    assert re.fullmatch(r"\d+ requests wait, the first of them for 2.\d s", served.serving.ended_early)
    answered = served.times[3] >= 0
    assert 50 < answered.sum() < 1000
    assert (~answered).sum() == served.serving.num_errors > 0
    assert answered[: answered.sum()].all()
    assert others(served) == []


@pytest.mark.parametrize("protocol", [Protocol.server, Protocol.offline])
def test_a_run_ends_early_at_the_cells_time_limit(protocol):
    served = run(make(sleeps(0.01), max_batch=2), protocol, num=1000, until_s=time.perf_counter() + 0.4)
    assert served.serving.ended_early == "the cell's time limit"
    assert 0 < served.serving.num_requests <= 80
    with pytest.raises(RuntimeError, match="no request was answered: the cell's time limit"):
        run(make(), protocol, until_s=0.0)


def test_offline_all_requests_are_due_at_once_and_batches_are_full():
    served = run(make(sleeps(0.005), sleeps(0.005), max_batch=4), Protocol.offline, num=10)
    due, issued, dispatched, done = served.times
    assert set(due) == set(issued) == {dispatched.min()}
    assert set(served.serving.batches) == {"4"}
    assert done.max() - due[0] >= 1e8


def test_arrivals_have_the_rate_and_are_as_irregular_as_a_poisson_process():
    due = due_ns(10_000, 500.0, seed=1)
    gaps = np.diff(due)
    assert (due.dtype, len(due)) == (np.int64, 10_000)
    assert gaps.min() >= 0
    assert 19.9e9 < due[-1] <= 20e9
    assert gaps.mean() == pytest.approx(2e6, rel=0.01)
    assert gaps.std() == pytest.approx(gaps.mean(), rel=0.05)  # as in an exponential distribution
    assert [num_requests(Server(rate=rate, duration_s=20.0)) for rate in (50.0, 0.01)] == [1000, 1]
    for rate in (1.1e5, 1e308):
        with pytest.raises(UserError, match="more than 2,000,000 requests in server.duration_s=20: use a lower rate"):
            num_requests(Server(rate=rate, duration_s=20.0))


MS = 1_000_000  # nanoseconds
DUE = due_ns(4000, 50, seed=1)


def times_of(due, late_ns=MS // 10, failed=()):
    """The times of requests that one worker computes one after another, each in 10 ms."""
    dispatched, free = np.zeros_like(due), 0
    for place, at in enumerate(due):
        dispatched[place] = max(at + late_ns, free)
        free = dispatched[place] + 10 * MS
    done = dispatched + 10 * MS
    done[list(failed)] = -1
    return np.stack([due, due + late_ns, dispatched, done])


def of(times, protocol=Protocol.server, ended_early=None, **server):
    known = {"seed": 3, "ended_early": ended_early, "busy_s": times.shape[1] / 100}
    return summarised(times, protocol, Server(**server), **known)


def test_rates_latencies_and_where_the_time_went_are_those_of_the_requests():
    times = times_of(DUE)
    due, _, dispatched, done = times
    kept = of(times, latency_ms=80)
    assert (kept.seed, kept.num_requests, kept.num_errors) == (3, 4000, 0)
    assert (kept.offered_per_s, kept.served_per_s, kept.duration_s) == pytest.approx((50, 50, 80), rel=0.01)
    assert (kept.compute_s, kept.busy_share, kept.late_p99_s) == pytest.approx((0.01, 0.5, 0.0001), rel=0.01)
    assert kept.queue_s == pytest.approx(np.mean(dispatched - due) / 1e9)
    latencies = np.sort(done - due) / 1e9
    assert [quantile.percentile for quantile in kept.latencies] == [50, 90, 99, 99.9]
    for quantile in kept.latencies[:3]:
        assert quantile.seconds == latencies[int(quantile.percentile * 40) - 1]
        assert quantile.low <= quantile.seconds < quantile.high
    assert kept.latencies[3].seconds is None  # 4,000 requests are too few
    assert (kept.verdict, kept.num_missed) == (Verdict.passes, np.count_nonzero(latencies > 0.08))
    assert kept.miss_share_low <= kept.num_missed / 4000 < kept.miss_share_high < 0.01
    assert of(times, latency_ms=12).verdict == Verdict.fails
    assert of(times, ended_early=TIME_LIMIT, latency_ms=80).verdict == Verdict.unknown


def test_a_request_without_an_answer_is_a_miss_and_not_served():
    kept = of(times_of(DUE, failed=range(0, 4000, 25)), latency_ms=80)
    assert (kept.num_errors, kept.num_missed) == (160, 160 + of(times_of(DUE), latency_ms=80).num_missed)
    assert (kept.verdict, kept.served_per_s) == (Verdict.fails, pytest.approx(48, rel=0.01))
    assert [quantile.seconds is None for quantile in kept.latencies] == [False, False, True, True]
    nothing = of(times_of(DUE, failed=range(4000)))
    assert (nothing.served_per_s, nothing.compute_s, nothing.verdict) == (0, None, Verdict.fails)


def test_queries_one_after_another_have_percentiles_and_no_verdict_and_a_pile_has_neither():
    kept = of(times_of(np.arange(100) * 10 * MS, late_ns=0), Protocol.single_stream)
    assert (kept.verdict, kept.num_missed, kept.late_p99_s) == (None, None, None)
    assert [quantile.seconds for quantile in kept.latencies] == [0.01, 0.01, None, None]
    assert (kept.offered_per_s, kept.served_per_s, kept.busy_share) == (100, 100, 1)
    pile = of(times_of(np.zeros(64, np.int64), late_ns=0), Protocol.offline)
    assert (pile.served_per_s, pile.latencies) == (100, [])
