"""Serves requests: batches them, has workers compute the batches, and keeps the times of each request."""

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

# Protocol -> samples of a query, and the fewest queries: MLPerf's early stopping needs 64 for the 90th percentile, and
# 662 for the 99th (Inference Rules, section on early stopping).
ONE_AT_A_TIME = {Protocol.single_stream: (1, 64), Protocol.multi_stream: (8, 662)}
MAX_LATE = 0.01  # of the limit, for 99 % of the requests or server.percentile: else they are not those asked for
LATE = "requests were issued"  # how the defect of such a run begins
MAX_RATE_ERROR = 0.01


@dataclass(frozen=True, kw_only=True)
class Service:
    """What answers requests."""

    pool: Sequence[Any]  # requests: batches of one sample in host memory; request i is pool[i % len(pool)]
    join: Callable[[Sequence[Any]], Any]  # several of them -> one batch
    # each computes a batch, and returns when the result is in host memory; called by one thread each
    workers: Sequence[Callable[[Any], None]]
    # of batches that can be computed, ascending, the last one is `max_batch`: a batch in between is padded, with its
    # last request repeated; empty: any up to `max_batch`
    sizes: Sequence[int] = ()
    max_batch: int = 1
    # called with the index of a worker, in the thread that will call it, before anything is timed: its warm-up. The
    # first worker is called in the thread that calls `serve`
    prepare: Callable[[int], None] = lambda index: None


@dataclass(frozen=True, kw_only=True)
class Served:
    """Raw times of each request (of `multi_stream`, a query), in nanoseconds of CLOCK_MONOTONIC; -1: did not happen.

    A run that ended early has those whose fate is known: that were answered, or had waited for longer than the limit.
    """

    due: Times
    issued: Times
    dispatched: Times
    done: Times
    batches: Mapping[int, int]  # samples of a batch -> how many such batches
    num_padded: int  # places in batches that no request filled
    busy_ns: int  # in which workers computed, all of them together
    num_workers: int
    num_errors: int  # requests that raised or were never answered
    error: str | None  # the first that was raised, in one line
    ended_early: str | None  # why
    defects: Sequence[str]  # why the run proves nothing
    seed: int


def serve(service: Service, protocol: Protocol, server: Server, seed: int, until_s: float = math.inf) -> Served:
    """Serves requests as `protocol` says, see docs/serving.md, until `until_s` of `time.perf_counter` at the latest.

    An exception of a worker is counted; one that says that memory is used up is raised, as any of `service.prepare` is.
    """
    # A further query of these would begin before the answer to the first.
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
    max_batch = crew.service.max_batch
    size, least = ONE_AT_A_TIME.get(protocol, (max_batch, 1))
    memory = mmap.mmap(-1, 16 * batcher.MAX_REQUESTS)  # it is used as it is needed, whatever the allocator
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
    """Why the requests were not those that were asked for."""
    if not len(due):
        return
    limit_ms = MAX_LATE * server.latency_ms
    percent = max(99.0, server.percentile)
    late_ms = np.percentile(issued - due, percent) / 1e6
    if late_ms > limit_ms:
        told = "use fewer threads, which leaves them a core, a lower server.rate, or a real-time process (ulimit -r 1)"
        limit = f"{limit_ms:.3g} ms, 1 % of server.latency_ms"
        yield f"{LATE} {late_ms:.3g} ms late (p{percent:g}), more than {limit}: {told}"
    asked_s, offered_s = (float(times[-1] - times[0]) / 1e9 for times in (due, issued))
    if abs(offered_s - asked_s) > max(MAX_RATE_ERROR * asked_s, limit_ms / 1e3):
        yield f"{len(due)} requests were to arrive in {asked_s:.2f} s, and did in {offered_s:.2f} s"


class _Crew:
    """The workers of a service, each in a thread of its own, the first one in the caller's."""

    error: str | None = None
    answered: Times  # gets when each sample was dispatched, and when done, at once; below 0 if its batch raised

    def __init__(self, service: Service, num: int) -> None:
        self.service = service
        self.begin_ns = 0  # when the first batch could begin
        self.nums = [array("q") for _ in range(num)]  # samples of each batch, by worker
        self.busy_ns = [0] * num
        self._taking = threading.Lock()  # its holder waits for the next batch
        self._failure: BaseException | None = None

    def run(self, batches: Batches, wait: Callable[[], None] = lambda: None) -> None:
        """Has the batches computed, once all are prepared and `wait` returns. Raises what is no error of a request."""

        def begin() -> None:
            wait()
            self.begin_ns = now_ns()

        self._barrier = threading.Barrier(len(self.nums), action=begin)
        threads = [threading.Thread(target=self._guarded, args=(each, batches)) for each in range(1, len(self.nums))]
        for thread in threads:
            thread.start()
        self._guarded(0, batches)
        for thread in threads:
            thread.join()
        if self._failure is not None:
            raise self._failure

    def times(self) -> tuple[Times, Times]:
        """When each sample was dispatched and done; -1 if its batch raised."""
        dispatched, done = self.answered[:, : sum(map(sum, self.nums))]  # samples are taken in their order
        return dispatched.copy(), np.maximum(done, -1)

    def size_of(self, num: int) -> int:
        """Of the batch that so many samples are computed in."""
        sizes = self.service.sizes
        return sizes[bisect_left(sizes, num)] if sizes else num

    def _guarded(self, index: int, batches: Batches) -> None:
        try:
            self.service.prepare(index)
            self._barrier.wait()
            self._work(index, batches)
        except threading.BrokenBarrierError:  # another one's failure
            pass
        except BaseException as error:  # `run` raises it
            self._failure = self._failure or error
            self._barrier.abort()

    def _work(self, worker: int, batches: Batches) -> None:
        pool, (dispatched, done) = self.service.pool, self.answered
        while True:
            with self._taking:
                taken = None if self._failure else next(batches, None)
            if taken is None:
                return
            first, num = taken
            dispatched[first : first + num] = began_ns = now_ns()  # before the worker: it may hang
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
