"""How a cell's run serves requests: its warm-up, its workers, and what is kept of them."""

import copy
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from random import SystemRandom
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelbench.engines.backend import BaseBackend
from accelbench.errors import UnsupportedError
from accelbench.measuring.clock import boot_s
from accelbench.measuring.limits import Limits
from accelbench.measuring.output_check import NOT_TIMED, difference, limit
from accelbench.measuring.promises import Observations
from accelbench.measuring.runner import Step, Timing, Watch
from accelbench.schema.cell import MAX_SEED, Cell, Window
from accelbench.schema.measurement import Block
from accelbench.schema.serving import Serving
from accelbench.schema.text import message_of, one_line
from accelbench.schema.vocab import Protocol, Stop
from accelbench.serving.batcher import TIME_LIMIT
from accelbench.serving.server import ONE_AT_A_TIME, Served, Service, serve
from accelbench.serving.summary import summarised, write_times

NUM_REQUESTS, NUM_DRAWN = 256, 64  # different ones, at most: of a data set, and of those that are drawn
MOST_WARM = 32  # up to this, batches of each size are computed before requests arrive, if time allows
LEAST_WARM = 2  # steps of whole batches that a warm-up has


def powers_up_to(most: int) -> list[int]:
    """The powers of two below `most`, and `most`: the sizes of batches where each size is compiled."""
    return [*(1 << power for power in range((most - 1).bit_length())), most]


class Worker:
    """Has an instance of the network compute batches, in the run's own thread or in a further one."""

    def __init__(self, run: "Serves", step: Step) -> None:
        self.run, self.step = run, step
        self.look_s: float | None = None  # from when on a batch is kept, on `time.perf_counter`
        self.kept: tuple[Any, NDArray[Any]] | None = None  # a served batch, and the numbers that it got

    def __call__(self, batch: Any) -> None:
        with self.run.in_worker():
            if self.look_s is None or time.perf_counter() < self.look_s:
                self.result_of(batch)
                return
            self.look_s, own = None, copy.deepcopy(batch)  # the network may change its inputs
            self.kept = own, self.run.numbers(self.result_of(batch))  # and a further call its output

    def result_of(self, batch: Any) -> Any:
        step = self.step
        result = step.compute(step.copy_in(batch))
        self.run.backend.wait()
        step.copy_out(result)
        return result

    def compute_again(self) -> None:
        """Compares what a served batch got with what it gets now, unless that changes: the network may draw numbers."""
        if self.kept is None:
            return
        batch, seen = self.kept

        def again() -> NDArray[Any]:
            return self.run.numbers(self.result_of(copy.deepcopy(batch)))

        first, most = again(), limit(self.run.cell.precision)
        if (gap := _gap(seen, first)) > most and _gap(first, again()) <= most:
            self.run.defects.append(NOT_TIMED.format(100 * gap))

    def warm_up(self, pool: Sequence[Any], sizes: Sequence[int], further: Sequence[int]) -> list[float]:
        """Computes a batch of each size, the largest first, and then whole ones; returns the seconds of each of those.

        So it does with `further` sizes, while time allows. Libraries keep what they prepare for a size, such as the
        kernels of a convolution, in the thread that asks.
        """

        def seconds_of(size: int) -> float:
            batch, start = self.run.batch_of(pool, size), time.perf_counter()
            self.result_of(batch)
            return time.perf_counter() - start

        self.run.begin_worker()
        with self.run.in_worker():
            took_s = [seconds_of(size) for size in sorted(sizes, reverse=True)][:1]
            end_s = time.perf_counter() + Window.warmup_s
            for size in further:
                if size not in sizes and time.perf_counter() < end_s:
                    seconds_of(size)
            while len(took_s) < LEAST_WARM or sum(took_s) < Window.warmup_s:
                took_s.append(seconds_of(max(sizes)))
        return took_s


class Serves:
    """The part of `cell_run.CellRun` that serves requests."""

    cell: Cell
    backend: BaseBackend
    limits: Limits
    timing: Timing
    seen: Observations
    defects: list[str]
    step: Any
    watch: Callable[[Any], Watch | None]
    requests_path: Path | None = None  # the file that gets the raw times of requests; None: they are not kept
    serving: Serving | None = None  # requests and their answers, once they were served
    why_unchecked: str | None = None  # why the output was not checked; None if it was

    def requests(self, num: int) -> Sequence[Any]:
        """At most so many batches of one sample each, in host memory, as the feed gives them."""
        raise UnsupportedError(f"protocol={self.cell.protocol}: engine={self.cell.engine} serves no requests")

    def joined(self, requests: Sequence[Any]) -> Any:
        """One batch of several of `requests`."""
        raise NotImplementedError

    def further_step(self) -> Step:
        """A step of another instance of the network, for a further thread."""
        raise UnsupportedError(f"server.workers={self.cell.server.workers}: engine={self.cell.engine} has one: use 1")

    def serving_sizes(self) -> Sequence[int]:
        """The sizes of batches that can be computed, ascending, the last one the cell's; empty: any up to that."""
        return ()

    def begin_worker(self) -> None:
        """Sets what belongs to the thread that calls it, before that computes its first batch."""

    def in_worker(self) -> AbstractContextManager[Any]:
        """The context in which a thread that serves computes a batch."""
        return nullcontext()

    def numbers(self, result: Any) -> NDArray[Any]:
        """A copy of the floating-point numbers of a step's result, in host memory."""
        raise NotImplementedError

    def serve(self, step: Step) -> None:
        """Serves requests as the cell's protocol says, and keeps their raw times.

        Notes what further checks need: how long whole batches take, a whole batch and its output, and defects, if the
        requests prove nothing.
        """
        cell, timing, pool = self.cell, self.timing, self.requests(NUM_REQUESTS)
        workers = [Worker(self, each) for each in (step, *(self.further_step() for _ in range(cell.num_instances - 1)))]
        sizes, looked = self.serving_sizes(), SystemRandom().choice(workers)

        def prepare(index: int) -> None:
            further = () if sizes else range(1, min(cell.batch_size, MOST_WARM) + 1)
            took_s = workers[index].warm_up(pool, sizes or powers_up_to(cell.batch_size), further)
            if index == 0:
                timing.first_step_s, *timing.whole_s = took_s
                timing.num_warmup_steps, timing.warmup_total_s = len(took_s), sum(took_s)
            timing.compiled_in_steady_state = -self.backend.compiles()[0]
            looked.look_s = time.perf_counter() + SystemRandom().uniform(0, cell.server.duration_s)

        service = Service(
            pool=pool, join=self.joined, workers=workers, sizes=sizes, max_batch=cell.batch_size, prepare=prepare
        )
        seed = int(cell.id, 16) % MAX_SEED  # of arrivals: each rate and each process has its own
        served = serve(service, cell.protocol, cell.server, seed, self.limits.ends.timeout_s)
        timing.compiled_in_steady_state += self.backend.compiles()[0]
        _note_times(cell, timing, served)
        timing.stop = Stop.timeout if served.ended_early == TIME_LIMIT else None
        self.defects += [*served.defects, *self.backend.changed()]
        digest = None if self.requests_path is None else write_times(served, self.requests_path)
        self.step, self.serving = step, replace(summarised(served, cell), sizes=list(sizes), requests_digest=digest)
        try:
            with self.seen.checking():
                looked.compute_again()
                whole = self.batch_of(pool, cell.batch_size)
                workers[0].result_of(whole)
        except Exception as error:
            if not served.num_errors:
                raise
            self.why_unchecked = f"it failed after its requests too ({one_line(message_of(error))})"
        else:
            if (watch := self.watch(step)) is not None:
                watch.look(whole)

    def batch_of(self, pool: Sequence[Any], size: int) -> Any:
        """So many requests, joined."""
        return self.joined([pool[index % len(pool)] for index in range(size)])


def _note_times(cell: Cell, timing: Timing, served: Served) -> None:
    """When requests were served, and, if all of them were there at once, how fast."""
    if (done := np.sort(served.done[served.done >= 0])).size == 0:
        return
    since_boot_s = boot_s() - time.monotonic()
    timing.steady_boot_s = int(served.due.min()) / 1e9 + since_boot_s, int(done[-1]) / 1e9 + since_boot_s
    timing.num_steady_samples = len(done) * ONE_AT_A_TIME.get(cell.protocol, (1, 1))[0]
    if cell.protocol == Protocol.offline:
        timing.blocks = blocks_of(done, int(served.dispatched[served.dispatched >= 0].min()))


def blocks_of(done: NDArray[np.int64], began: int) -> list[Block]:
    """Blocks of batches that were computed one after another, from the sorted ends of their samples in nanoseconds."""
    ends, nums = np.unique(done, return_counts=True)  # the samples of a batch end together
    blocks, first = list[Block](), 0
    for last, end in enumerate(ends.tolist()):
        seconds = (end - began) / 1e9
        if seconds >= Window.block_s or (last == len(ends) - 1 and not blocks):
            num = int(nums[first : last + 1].sum())
            blocks.append(Block(num_steps=last + 1 - first, num_samples=num, seconds=seconds))
            began, first = end, last + 1
    return blocks


def _gap(one: NDArray[Any], other: NDArray[Any]) -> float:
    return difference(one, other) if one.shape == other.shape else np.inf
