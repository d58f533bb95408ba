"""Serves requests: issues them, groups them into batches, lets workers compute the batches, and summarises their times.

The requests arrive at random times, or a client sends one after each answer.
"""

import contextlib
import fcntl
import itertools
import math
import mmap
import os
import select
import subprocess
import sys
import threading
import time
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accelbench.errors import UserError
from accelbench.schema.cell import Protocol, Server, Verdict
from accelbench.schema.measurement import Quantile, Serving
from accelbench.schema.text import MAX_REASON, beginning, is_out_of_memory, message_of, one_line
from accelbench.serving import generator
from accelbench.stats.request_latencies import Run, verdict

Times = NDArray[np.int64]
# (index of the first sample, number of samples) of each batch.
Batches = Generator[tuple[int, int], None, None]

now_ns = time.monotonic_ns
PIPE_BYTES = 1 << 20  # size of the pipe, one byte per waiting request; Linux allows users no larger pipe
LEAD_NS = 5_000_000  # time from the start until the first request
START_S = 60.0  # longest time for the generator to start
CHECK_NS = 100_000_000  # longest time between two looks at the clock
# A run ends early if a request has waited for longer than both: so many latency limits, and so many nanoseconds.
MAX_WAITED, LONGEST_NS = 10, 2_000_000_000
MAX_REQUESTS = 2_000_000  # most requests of a run; their times take up to 200 MB
TIME_LIMIT = "the cell's time limit"
# Protocol -> (samples of a query, fewest queries). MLPerf's early stopping needs 64 queries for the 90th percentile,
# and 662 for the 99th (MLPerf Inference Rules, section on early stopping).
ONE_AT_A_TIME = {Protocol.single_stream: (1, 64), Protocol.multi_stream: (8, 662)}
# Requests are invalid if their lateness, at percentile 99 or server.percentile, is above this share of the limit.
MAX_LATE = 0.01
PERCENTILES = (50.0, 90.0, 99.0, 99.9)


def queries(size: int, max_batch: int, least: int, duration_s: float, until_s: float) -> Batches:
    """Yields batches of queries, one query after another. A query has `size` samples.

    The iteration ends when `duration_s` seconds are over and at least `least` queries were made. It also ends when
    `time.perf_counter()` reaches `until_s`.
    """
    end_s = time.perf_counter() + duration_s
    for query in itertools.count():
        now_s = time.perf_counter()
        if now_s >= until_s or (query >= least and now_s >= end_s):
            return
        for first in range(0, size, max_batch):
            yield query * size + first, min(max_batch, size - first)


def due_ns(num: int, rate: float, seed: int) -> Times:
    """Returns the nanoseconds at which `num` requests are due, in rising order. The mean rate is `rate` per second.

    The requests arrive as in a Poisson process whose number of events is fixed, so that every run has exactly the
    requested rate. Their times are uniform random numbers that are sorted (Ross, Stochastic Processes, theorem 2.3.1).
    In a plain Poisson process, the rate would have a relative standard deviation of 1 / sqrt(num).
    """
    times = np.random.default_rng(seed).random(num)
    times.sort()
    return (times * (num / rate * 1e9)).astype(np.int64)


def num_requests(server: Server) -> int:
    """Returns the number of requests in `server.duration_s`. Raises UserError if it is more than `MAX_REQUESTS`."""
    num = server.rate * server.duration_s
    if num > MAX_REQUESTS:
        why = f"more than {MAX_REQUESTS:,} requests in server.duration_s={server.duration_s:g}"
        raise UserError(f"server.rate={server.rate:g}: {why}: use a lower rate or a shorter duration")
    return max(1, round(num))


class Arrivals:
    """Receives the requests that a generator process issues.

    The process starts when this object is created. It issues requests while the caller iterates over `batches`. It ends
    when the context ends.
    """

    def __init__(self, server: Server, seed: int, until_s: float) -> None:
        self.ended_early: str | None = None
        self.num = 0  # requests that have arrived
        self._server = server
        self._until_ns = until_s * 1e9
        self._buffer = bytearray(PIPE_BYTES)
        num = num_requests(server)
        file = os.memfd_create("requests")
        os.ftruncate(file, 16 * num)
        self.due, self.issued = np.frombuffer(mmap.mmap(file, 0), np.int64).reshape(2, -1)
        self.due[:] = due_ns(num, server.rate, seed)
        self._pipe, theirs = os.pipe()  # not standard output: the interpreter may print there when it starts
        command = [sys.executable, "-I", "-S", str(generator.__file__), str(file), str(theirs)]
        with open(file, "wb"), open(theirs, "wb"):
            self._process = subprocess.Popen(
                command, bufsize=0, pass_fds=[file, theirs], stdin=subprocess.PIPE
            )
        with contextlib.suppress(OSError):  # fails if the user has too many large pipes
            # If a pipe is full, further requests are late.
            fcntl.fcntl(self._pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)

    def __enter__(self) -> "Arrivals":
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.__exit__(None, None, None)  # waits for the end of the process
        os.close(self._pipe)

    def wait(self) -> None:
        """Waits until the process is ready. Raises RuntimeError if it does not start."""
        if not select.select([self._pipe], [], [], START_S)[0] or os.read(self._pipe, 1) != generator.READY:
            raise RuntimeError("the process that issues requests did not start")
        os.set_blocking(self._pipe, False)

    def batches(self, max_batch: int) -> Batches:
        """Yields batches as Triton's dynamic batcher does.

        A batch is yielded when it is full, or when its oldest request has waited for `max_delay_ms`. The iteration ends
        early if a request waits so long that more time would not change the result.
        """
        self.due += now_ns() + LEAD_NS - self.due[0]
        self._process.stdin.write(b"\n")  # type: ignore[union-attr]
        delay_ns = int(self._server.max_delay_ms * 1e6)
        longest_ns = max(LONGEST_NS, MAX_WAITED * int(self._server.latency_ms * 1e6))
        first = 0  # the next request to put into a batch
        is_closed = False
        while True:
            with contextlib.suppress(BlockingIOError):  # raised when the pipe is empty
                while num := os.readv(self._pipe, [self._buffer]):
                    self.num += num
                is_closed = True
            now = now_ns()
            waiting = self.num - first
            waited_ns = now - int(self.due[first]) if waiting else 0
            if now >= self._until_ns:
                self.ended_early = TIME_LIMIT
            elif waited_ns > longest_ns:
                self.ended_early = f"{waiting} requests wait, the first of them for {waited_ns / 1e9:.1f} s"
            if self.ended_early or (is_closed and not waiting):
                return
            left_ns = delay_ns - waited_ns if waiting else CHECK_NS
            if waiting and (waiting >= max_batch or left_ns <= 0):
                num = min(waiting, max_batch)
                yield first, num
                first += num
            else:  # no wait for a closed pipe, which is always ready
                select.select([] if is_closed else [self._pipe], [], [], min(left_ns, CHECK_NS) / 1e9)


@dataclass
class Service:
    """The workers that answer requests. An instance serves once."""

    pool: Sequence[Any]  # batches of one sample in host memory; request i is pool[i % len(pool)]
    join: Callable[[Sequence[Any]], Any]  # joins several requests into one batch
    # A worker computes a batch, and returns when the result is in host memory. Each worker has its own thread; the
    # first worker's thread is the one that calls `serve`.
    workers: Sequence[Callable[[Any], None]]
    # Batch sizes that can be computed, ascending, up to `max_batch`; empty: any size up to `max_batch`. A batch of
    # another size is padded: its last request is repeated.
    sizes: Sequence[int] = ()
    max_batch: int = 1
    # Warms up a worker, by its index. It is called in the worker's thread before the timing begins.
    prepare: Callable[[int], None] = lambda index: None
    error: str | None = None  # the first exception of a request, in one line

    def compute(self, batches: Batches, num_workers: int, wait: Callable[[], None] | None = None) -> Times:
        """Prepares the workers, calls `wait`, then computes the batches.

        Returns a row for each batch, in order: the first sample, the number of samples, when the batch began, and when
        it ended (below 0: it failed). If memory runs out, or if `prepare` fails, this method raises the exception.
        """
        rows = array("q")
        taking = threading.Lock()  # held by the worker that waits for the next batch
        barrier = threading.Barrier(num_workers, action=wait)

        def work(index: int) -> None:
            try:
                self.prepare(index)
                barrier.wait()
                while True:
                    with taking:
                        batch = next(batches, None)
                    if batch is None:
                        return
                    rows.extend(self._computed(index, *batch))
            except threading.BrokenBarrierError:  # another worker failed
                return
            except BaseException:
                barrier.abort()
                with taking:
                    batches.close()
                raise

        with ThreadPoolExecutor(num_workers) as threads:
            others = [threads.submit(work, index) for index in range(1, num_workers)]
            work(0)
        for other in others:
            other.result()
        table = np.array(rows, np.int64).reshape(-1, 4)
        return table[table[:, 0].argsort()]

    def size_of(self, num: int) -> int:
        """Returns the size to which a batch of `num` samples is padded."""
        return self.sizes[bisect_left(self.sizes, num)] if self.sizes else num

    def _computed(self, index: int, first: int, num: int) -> tuple[int, int, int, int]:
        began_ns = now_ns()
        try:
            samples = [self.pool[place % len(self.pool)] for place in range(first, first + num)]
            padding = samples[-1:] * (self.size_of(num) - num)
            self.workers[index](self.join(samples + padding))
            return first, num, began_ns, now_ns()
        except Exception as error:
            ended_ns = now_ns()
            if is_out_of_memory(error):
                raise
            text = f"{type(error).__name__}: {message_of(error)}"
            self.error = self.error or beginning(one_line(text), MAX_REASON)
            return first, num, began_ns, -ended_ns


class Served(NamedTuple):
    """What a service did."""

    # Four rows with the times of each request: due, issued, dispatched, done, in nanoseconds of CLOCK_MONOTONIC. If
    # something did not happen, its time is -1. With `protocol=multi_stream`, the times belong to queries. If the run
    # ended early, a request without an answer is left out, unless it had waited for longer than the latency limit.
    times: Times
    serving: Serving
    defects: list[str]  # reasons why the run is invalid


def serve(
    service: Service, protocol: Protocol, server: Server, seed: int, until_s: float = math.inf
) -> Served:
    """Serves requests by `protocol` (see docs/serving.md), at the latest until `time.perf_counter()` is `until_s`.

    If a worker raises an exception, the requests of its batch get an error, and serving continues. But if memory runs
    out, or if `service.prepare` fails, this function raises the exception. Raises RuntimeError if no request was
    computed and none has missed its limit.
    """
    # Only one worker if queries follow one another: a second worker would begin a query before the answer to the first.
    num_workers = 1 if protocol in ONE_AT_A_TIME else len(service.workers)
    defects = []
    if protocol == Protocol.server:
        with Arrivals(server, seed, until_s) as arrivals:
            rows = service.compute(arrivals.batches(service.max_batch), num_workers, arrivals.wait)
        ended_early = arrivals.ended_early
    else:
        size, least = ONE_AT_A_TIME.get(protocol, (service.max_batch, 1))
        rows = service.compute(
            queries(size, service.max_batch, least, server.duration_s, until_s), num_workers
        )
        ended_early = TIME_LIMIT if time.perf_counter() >= until_s else None
    _, nums, began, ended = rows.T
    dispatched = np.repeat(began, nums)
    done = np.repeat(np.maximum(ended, -1), nums)
    if protocol == Protocol.server:
        # Of the requests that were not dispatched, those that have waited for longer than the limit are misses.
        missed = int(np.searchsorted(arrivals.due[: arrivals.num], now_ns() - 1e6 * server.latency_ms))
        num = max(len(done), missed)
        due = arrivals.due[:num].copy()
        issued = arrivals.issued[:num].copy()
        dispatched, done = (np.append(known, np.full(num - len(done), -1)) for known in (dispatched, done))
        if not ended_early and arrivals.num < len(arrivals.due):
            defects.append(
                f"the process that issues requests ended after {arrivals.num} of {len(arrivals.due)}"
            )
        defects += lateness(due, issued, server)
    elif protocol in ONE_AT_A_TIME:
        due = issued = dispatched = dispatched[::size]
        done = np.where((done < 0).reshape(-1, size).any(axis=1), -1, done[size - 1 :: size])
    else:  # all requests are due when the first batch begins
        due = issued = np.full(len(done), min(dispatched, default=0))
    if not len(due):
        raise RuntimeError(f"no request was answered: {ended_early or defects[0]}")
    times = np.stack([due, issued, dispatched, done])
    batches = Counter(nums.tolist())
    serving = summarised(
        times,
        protocol,
        server,
        busy_s=float((np.abs(ended) - began).sum()) / 1e9 / num_workers,
        seed=seed,
        error=service.error,
        ended_early=ended_early,
        batches={str(size): num for size, num in sorted(batches.items())},
        sizes=list(service.sizes),
        num_padded=sum((service.size_of(num) - num) * count for num, count in batches.items()),
    )
    return Served(times, serving, defects)


def lateness(due: Times, issued: Times, server: Server) -> list[str]:
    """Returns a message if requests were issued too late."""
    percent = max(99.0, server.percentile)
    late_ms = np.percentile(issued - due, percent) / 1e6 if len(due) else 0.0
    if late_ms <= MAX_LATE * server.latency_ms:
        return []
    advice = (
        "use fewer threads to free a core, or lower server.rate, or get real-time priority by `ulimit -r 1`"
    )
    return [
        f"requests were issued {late_ms:.3g} ms late (p{percent:g}), above 1 % of server.latency_ms: {advice}"
    ]


def summarised(times: Times, protocol: Protocol, server: Server, *, busy_s: float, **known: Any) -> Serving:
    """Summarises the times of requests (see `Served`) for their record.

    Slow answers come in clusters. So `stats.request_latencies` computes the bounds of each percentile, and decides
    whether the latency limit was met. With `protocol=offline`, there are no latencies, because all requests are due at
    once.

    Args:
        busy_s: mean seconds in which a worker computed.
        known: other fields of `Serving`.
    """
    due, issued, dispatched, done = times
    num = len(due)
    is_server = protocol == Protocol.server
    answered = done >= 0
    span_s = _s(due[-1] - due[0])
    duration_s = max(_s(times.max() - due[0]), 1e-9)
    run = Run(due, done)
    limit_ns = round(server.latency_ms * 1e6)
    latencies = []
    for percent in sorted({*PERCENTILES, server.percentile}) if protocol != Protocol.offline else ():
        seconds, low, high = (None if ns is None else _s(ns) for ns in run.bounds(percent, limit_ns))
        latencies.append(Quantile(percentile=percent, seconds=seconds, low=low, high=high))
    if is_server:
        misses = run.misses(limit_ns)
        word = verdict(misses, server.percentile)
        known |= {
            "verdict": Verdict.unknown if known["ended_early"] == TIME_LIMIT else word,
            "num_missed": misses.num_missed,
            "design_effect": misses.effect,
            "miss_share_low": misses.low,
            "miss_share_high": misses.high,
            "late_p99_s": _s(np.percentile(issued - due, 99)),
        }
    if answered.any():
        known["queue_s"] = _s((dispatched - due)[answered].mean())
        known["compute_s"] = _s((done - dispatched)[answered].mean())
    return Serving(
        num_requests=num,
        num_errors=num - int(answered.sum()),
        duration_s=duration_s,
        offered_per_s=(num - 1) / span_s if is_server and span_s else num / duration_s,
        served_per_s=int(answered.sum()) / duration_s,
        latencies=latencies,
        busy_share=min(1.0, busy_s / duration_s),
        **known,
    )


def _s(ns: float) -> float:
    return float(ns) / 1e9
