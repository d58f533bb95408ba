"""Serves requests: groups them into batches, lets workers compute the batches, and keeps the times of each request."""

import math
import threading
import time
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

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
    defects: list[str] = []
    if protocol == Protocol.server:
        with Arrivals(server, seed, until_s) as arrivals:
            crew.run(arrivals.batches(service.max_batch), arrivals.wait)
        ended_early = arrivals.ended_early
        computed = crew.computed()
        num = arrivals.num_known(len(computed.done))
        due = arrivals.due[:num].copy()
        issued = arrivals.issued[:num].copy()
        never = np.full(num - len(computed.done), -1)
        dispatched = np.append(computed.dispatched, never)
        done = np.append(computed.done, never)
        if not ended_early and arrivals.num < len(arrivals.due):
            defects.append(f"the process that issues requests ended after {arrivals.num} of {len(arrivals.due)}")
        defects += _lateness(due, issued, server)
    else:
        size, least = ONE_AT_A_TIME.get(protocol, (service.max_batch, 1))
        crew.run(batcher.queries(size, service.max_batch, least, server.duration_s, until_s))
        ended_early = batcher.TIME_LIMIT if time.perf_counter() >= until_s else None
        computed = crew.computed()
        dispatched, done = computed.dispatched, computed.done
        if protocol in ONE_AT_A_TIME:
            dispatched = dispatched[::size]
            done = np.where((done < 0).reshape(-1, size).any(axis=1), -1, done[size - 1 :: size])
            due = issued = dispatched
        else:  # all requests are due when the first batch begins
            due = issued = np.full(len(done), min(dispatched, default=0))
    if not len(due):
        raise RuntimeError(f"no request was answered: {ended_early or defects[0]}")
    return Served(
        due=due,
        issued=issued,
        dispatched=dispatched,
        done=done,
        batches=computed.batches,
        num_padded=sum((crew.size_of(num) - num) * count for num, count in computed.batches.items()),
        busy_ns=computed.busy_ns,
        num_workers=len(crew.records),
        num_errors=int((done < 0).sum()),
        error=crew.error,
        ended_early=ended_early,
        defects=defects,
        seed=seed,
    )


def _lateness(due: Times, issued: Times, server: Server) -> Iterator[str]:
    """Yields a message if requests were issued too late."""
    limit_ms = MAX_LATE * server.latency_ms
    percent = max(99.0, server.percentile)
    late_ms = np.percentile(issued - due, percent) / 1e6 if len(due) else 0.0
    if late_ms > limit_ms:
        advice = "use fewer threads to free a core, or lower server.rate, or get real-time priority by `ulimit -r 1`"
        limit = f"{limit_ms:.3g} ms (1 % of server.latency_ms)"
        yield f"{LATE} {late_ms:.3g} ms late (p{percent:g}), above the limit of {limit}: {advice}"


class _Computed(NamedTuple):
    """What the workers computed."""

    dispatched: Times  # when each sample was dispatched
    done: Times  # when each sample was done; -1: its batch failed
    batches: Mapping[int, int]  # samples of a batch -> number of such batches
    busy_ns: int


class _Crew:
    """The workers of a service. The first worker runs in the caller's thread, each other worker in a new thread."""

    error: str | None = None

    def __init__(self, service: Service, num: int) -> None:
        self.service = service
        # For each worker, four numbers for each of its batches: the first sample, the number of samples, when the batch
        # began, and when it ended (below 0: it failed).
        self.records = [array("q") for _ in range(num)]
        self._taking = threading.Lock()  # held by the worker that waits for the next batch
        self._failure: BaseException | None = None

    def run(self, batches: Batches, wait: Callable[[], None] | None = None) -> None:
        """Prepares all workers, calls `wait`, then computes the batches.

        If memory runs out, or if `service.prepare` fails, this method raises the exception.
        """
        num = len(self.records)
        self._barrier = threading.Barrier(num, action=wait)
        threads = [threading.Thread(target=self._guarded, args=(index, batches)) for index in range(1, num)]
        for thread in threads:
            thread.start()
        self._guarded(0, batches)
        for thread in threads:
            thread.join()
        if self._failure is not None:
            raise self._failure

    def computed(self) -> _Computed:
        """Returns what the workers computed, with the samples in order."""
        rows = np.concatenate([np.array(record, np.int64).reshape(-1, 4) for record in self.records])
        _, nums, began, ended = rows[rows[:, 0].argsort()].T
        return _Computed(
            dispatched=np.repeat(began, nums),
            done=np.repeat(np.maximum(ended, -1), nums),
            batches=Counter(nums.tolist()),
            busy_ns=int((np.abs(ended) - began).sum()),
        )

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
        pool = self.service.pool
        while True:
            with self._taking:
                batch = None if self._failure else next(batches, None)
            if batch is None:
                return
            first, num = batch
            began_ns = now_ns()
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
            self.records[worker].extend((first, num, began_ns, ended_ns))
