"""Serves requests: groups them into batches, lets workers compute the batches, and keeps the times of each request."""

import math
import mmap
import threading
import time
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from accelbench.schema.cell import Server
from accelbench.schema.text import MAX_REASON, beginning, is_out_of_memory, message_of, one_line
from accelbench.schema.vocab import Protocol
from accelbench.serving import batcher
from accelbench.serving.batcher import Arrivals, Batches, Times, now_ns

# Protocol -> (samples of a query, fewest queries). MLPerf's early stopping needs 64 queries for the 90th percentile,
# and 662 for the 99th (MLPerf Inference Rules, section on early stopping).
ONE_AT_A_TIME = {Protocol.single_stream: (1, 64), Protocol.multi_stream: (8, 662)}
# Requests are invalid if their lateness, at percentile 99 or server.percentile, is above this share of the limit.
MAX_LATE = 0.01
LATE = "requests were issued"  # the first words of the message about late requests
MAX_RATE_ERROR = 0.01  # largest relative error of the rate at which requests were issued


@dataclass(frozen=True, kw_only=True)
class Service:
    """The requests, and the workers that answer them."""

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


@dataclass(frozen=True, kw_only=True)
class Served:
    """The raw times of each request, in nanoseconds of CLOCK_MONOTONIC. If something did not happen, its time is -1.

    With `protocol=multi_stream`, the times belong to queries, not to requests. If the run ended early, a request
    without an answer is left out, unless it had waited for longer than the latency limit.
    """

    due: Times
    issued: Times
    dispatched: Times
    done: Times
    batches: Mapping[int, int]  # samples of a batch -> number of such batches
    num_padded: int  # places in batches that were filled by padding
    busy_ns: int  # total time of all workers in which they computed
    num_workers: int
    num_errors: int  # requests that raised an exception or were never answered
    error: str | None  # the first exception, in one line
    ended_early: str | None  # the reason if the run ended early
    defects: Sequence[str]  # reasons why the run is invalid
    seed: int


def serve(service: Service, protocol: Protocol, server: Server, seed: int, until_s: float = math.inf) -> Served:
    """Serves requests by `protocol` (see docs/serving.md), at the latest until `time.perf_counter()` is `until_s`.

    If a worker raises an exception, the requests of its batch get an error, and serving continues. But if memory runs
    out, or if `service.prepare` fails, this function raises the exception. Raises RuntimeError if no request was
    answered.
    """
    # Only one worker if queries follow one another: a second worker would begin a query before the answer to the first.
    crew = _Crew(service, 1 if protocol in ONE_AT_A_TIME else len(service.workers))
    if protocol == Protocol.server:
        times, ended_early, defects = _open_loop(crew, server, seed, until_s)
    else:
        times = _closed_loop(crew, protocol, server, until_s)
        ended_early = None
        defects = []
        if time.perf_counter() >= until_s:
            ended_early = batcher.TIME_LIMIT
    if not len(times[0]):
        raise RuntimeError(f"no request was answered: {ended_early or defects[0]}")
    batches = Counter(num for nums in crew.nums for num in nums)
    return Served(
        **dict(zip(("due", "issued", "dispatched", "done"), times, strict=True)),
        batches=batches,
        num_padded=sum((crew.size_of(num) - num) * count for num, count in batches.items()),
        busy_ns=sum(crew.busy_ns),
        num_workers=len(crew.nums),
        num_errors=int((times[-1] < 0).sum()),
        error=crew.error,
        ended_early=ended_early,
        defects=defects,
        seed=seed,
    )


def _open_loop(crew: "_Crew", server: Server, seed: int, until_s: float) -> tuple[list[Times], str | None, list[str]]:
    """Serves requests that arrive at random times, whether or not earlier requests have been answered."""
    with Arrivals(server, seed, until_s) as arrivals:
        crew.answered = arrivals.answered
        crew.run(arrivals.batches(crew.service.max_batch), arrivals.wait)
    dispatched, done = crew.times()
    due, issued = arrivals.times(len(done))
    never = np.full(len(due) - len(done), -1)
    dispatched, done = np.append(dispatched, never), np.append(done, never)
    defects = [death] if (death := arrivals.death()) else []
    return [due, issued, dispatched, done], arrivals.ended_early, [*defects, *_lateness(due, issued, server)]


def _closed_loop(crew: "_Crew", protocol: Protocol, server: Server, until_s: float) -> list[Times]:
    """Serves queries one after another. With protocol=offline, serves full batches without a pause."""
    max_batch = crew.service.max_batch
    size, least = ONE_AT_A_TIME.get(protocol, (max_batch, 1))
    memory = mmap.mmap(-1, 16 * batcher.MAX_REQUESTS)  # mmap, so that only used pages take memory with any allocator
    crew.answered = np.frombuffer(memory, np.int64).reshape(2, -1)
    crew.run(batcher.queries(size, max_batch, least, server.duration_s, until_s))
    dispatched, done = crew.times()
    if protocol not in ONE_AT_A_TIME:
        due = np.full(len(done), crew.begin_ns)
        return [due, due, dispatched, done]
    done = np.where((done < 0).reshape(-1, size).any(axis=1), -1, done[size - 1 :: size])
    begun = dispatched[::size]
    return [begun, begun, begun, done]


def _lateness(due: Times, issued: Times, server: Server) -> Iterator[str]:
    """Yields a message if requests were issued too late, or at a rate that differs from `server.rate`."""
    if not len(due):
        return
    limit_ms = MAX_LATE * server.latency_ms
    percent = max(99.0, server.percentile)
    late_ms = np.percentile(issued - due, percent) / 1e6
    if late_ms > limit_ms:
        advice = "use fewer threads to free a core, or lower server.rate, or get real-time priority by `ulimit -r 1`"
        limit = f"{limit_ms:.3g} ms (1 % of server.latency_ms)"
        yield f"{LATE} {late_ms:.3g} ms late (p{percent:g}), above the limit of {limit}: {advice}"
    asked_s, offered_s = (float(times[-1] - times[0]) / 1e9 for times in (due, issued))
    if abs(offered_s - asked_s) > max(MAX_RATE_ERROR * asked_s, limit_ms / 1e3):
        yield f"{len(due)} requests should have arrived in {asked_s:.2f} s, but arrived in {offered_s:.2f} s"


class _Crew:
    """The workers of a service. The first worker runs in the caller's thread, each other worker in a new thread."""

    error: str | None = None
    # Two rows that workers write: when each sample was dispatched, and when it was done (below 0: its batch failed).
    answered: Times

    def __init__(self, service: Service, num: int) -> None:
        self.service = service
        self.begin_ns = 0  # the time from which batches could begin
        self.nums = [array("q") for _ in range(num)]  # for each worker, the numbers of samples of its batches
        self.busy_ns = [0] * num
        self._taking = threading.Lock()  # held by the worker that waits for the next batch
        self._failure: BaseException | None = None

    def run(self, batches: Batches, wait: Callable[[], None] = lambda: None) -> None:
        """Prepares all workers, calls `wait`, then computes the batches.

        If memory runs out, or if `service.prepare` fails, this method raises the exception.
        """

        def begin() -> None:
            wait()
            self.begin_ns = now_ns()

        self._barrier = threading.Barrier(len(self.nums), action=begin)
        threads = [threading.Thread(target=self._guarded, args=(index, batches)) for index in range(1, len(self.nums))]
        for thread in threads:
            thread.start()
        self._guarded(0, batches)
        for thread in threads:
            thread.join()
        if self._failure is not None:
            raise self._failure

    def times(self) -> tuple[Times, Times]:
        """Returns when each sample was dispatched and when it was done. The second time is -1 if its batch failed."""
        dispatched, done = self.answered[:, : sum(map(sum, self.nums))]  # workers take samples in order
        return dispatched.copy(), np.maximum(done, -1)

    def size_of(self, num: int) -> int:
        """Returns the size to which a batch of `num` samples is padded."""
        sizes = self.service.sizes
        return sizes[bisect_left(sizes, num)] if sizes else num

    def _guarded(self, index: int, batches: Batches) -> None:
        try:
            self.service.prepare(index)
            self._barrier.wait()
            self._work(index, batches)
        except threading.BrokenBarrierError:  # another worker failed
            pass
        except BaseException as error:  # `run` raises it later
            self._failure = self._failure or error
            self._barrier.abort()

    def _work(self, worker: int, batches: Batches) -> None:
        pool, (dispatched, done) = self.service.pool, self.answered
        while True:
            with self._taking:
                batch = None if self._failure else next(batches, None)
            if batch is None:
                return
            first, num = batch
            dispatched[first : first + num] = began_ns = now_ns()  # written before the worker runs, which may hang
            try:
                samples = [pool[index % len(pool)] for index in range(first, first + num)]
                padding = samples[-1:] * (self.size_of(num) - num)
                self.service.workers[worker](self.service.join(samples + padding))
                ended_ns = now_ns()
            except Exception as error:
                ended_ns = -now_ns()
                if is_out_of_memory(error):
                    raise
                text = f"{type(error).__name__}: {message_of(error)}"
                self.error = self.error or beginning(one_line(text), MAX_REASON)
            self.nums[worker].append(num)
            self.busy_ns[worker] += abs(ended_ns) - began_ns
            done[first : first + num] = ended_ns
