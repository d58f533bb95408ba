"""Serves requests with the network of a cell: creates workers, warms them up, and records the raw times."""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from accelbench.measuring.checks import OUTPUT
from accelbench.measuring.clock import Step, Timing, boot_s
from accelbench.schema.cell import MAX_SEED, Cell, Protocol, Stop, Window
from accelbench.schema.measurement import Block
from accelbench.schema.serialize import sha256_of, writing
from accelbench.serving import server
from accelbench.serving.server import ONE_AT_A_TIME, TIME_LIMIT, Served, Service

if TYPE_CHECKING:
    from accelbench.engines.cell_run import CellRun

NUM_REQUESTS, NUM_DRAWN = 256, 64  # most different requests from a data set, and of random inputs
MOST_WARM = 32  # batches of each size up to this are computed in the warm-up, if time allows
LEAST_WARM = 2  # fewest steps of full batches in a warm-up


def powers_up_to(most: int) -> list[int]:
    """Returns the powers of two below `most`, and `most`. A network that is compiled per batch size uses only these."""
    return [*(1 << power for power in range((most - 1).bit_length())), most]


def batch_of(run: "CellRun", pool: Sequence[Any], size: int) -> Any:
    """Joins the first `size` requests of `pool` into one batch. If `pool` has fewer requests, repeats them."""
    return run.joined([pool[index % len(pool)] for index in range(size)])


class Worker:
    """Computes batches with one instance of the network, in the thread that calls it."""

    def __init__(self, run: "CellRun", step: Step) -> None:
        self.run, self.step = run, step

    def __call__(self, batch: Any) -> None:
        with self.run.in_worker():
            self.result_of(batch)

    def result_of(self, batch: Any) -> Any:
        """Computes a batch. Returns when the result is in host memory."""
        step = self.step
        result = step.compute(step.copy_in(batch))
        self.run.backend.wait()
        step.copy_out(result)
        return result

    def warm_up(self, pool: Sequence[Any]) -> list[float]:
        """Warms up the calling thread. Returns a list with the seconds of every batch of the largest size.

        Some libraries prepare every batch size once per thread. Therefore the thread first computes one batch of each
        compiled size. If any size can be computed, it computes one batch of each size while time is left. Then it
        repeats batches of the largest size.
        """
        run = self.run
        largest = run.cell.batch_size

        def seconds_of(size: int) -> float:
            batch = batch_of(run, pool, size)
            start = time.perf_counter()
            self.result_of(batch)
            return time.perf_counter() - start

        run.begin_worker()
        with run.in_worker():
            took_s = [seconds_of(largest)]
            end_s = time.perf_counter() + Window.warmup_s
            for size in run.serving_sizes or range(1, min(largest, MOST_WARM + 1)):
                if run.serving_sizes or time.perf_counter() < end_s:
                    seconds_of(size)
            while len(took_s) < LEAST_WARM or sum(took_s) < Window.warmup_s:
                took_s.append(seconds_of(largest))
        return took_s


def serve(run: "CellRun", step: Step) -> None:
    """Serves requests as the cell's protocol says. Stores the raw times, defects and changed settings in `run`."""
    cell = run.cell
    timing = run.timing
    pool = run.requests(NUM_REQUESTS)
    workers = [Worker(run, step)]
    workers += [Worker(run, run.further_step()) for _ in range(cell.num_instances - 1)]

    def prepare(index: int) -> None:
        took_s = workers[index].warm_up(pool)
        if index == 0:
            timing.first_step_s = took_s[0]
            timing.num_warmup_steps, timing.warmup_total_s = len(took_s), sum(took_s)
        timing.compiled_in_steady_state = -run.backend.compiles()[0]

    service = Service(pool, run.joined, workers, run.serving_sizes, cell.batch_size, prepare)
    seed = int(cell.id, 16) % MAX_SEED  # the seed of arrival times; it differs between rates and processes
    served = server.serve(service, cell.protocol, cell.server, seed, run.limits.timeout_s)
    timing.compiled_in_steady_state += run.backend.compiles()[0]
    _note_times(cell, timing, served)
    timing.stop = Stop.timeout if served.serving.ended_early == TIME_LIMIT else None
    run.defects += served.defects
    run.step = step
    run.serving = served.serving
    if run.requests_path is not None:
        # If writing raises OSError, a file that was at this path before stays unchanged.
        with writing(run.requests_path) as written:
            with written.open("wb") as file:
                np.save(file, served.times, allow_pickle=False)
            run.serving = replace(served.serving, requests_digest=sha256_of(written))
    if served.serving.error:
        run.observations.unchecked[OUTPUT] = "the model failed for some requests"
    else:  # the output check reads the last batch, which must be full
        workers[0].result_of(batch_of(run, pool, cell.batch_size))


def _note_times(cell: Cell, timing: Timing, served: Served) -> None:
    """Stores when serving began and ended. With `protocol=offline`, also stores timed blocks (`blocks_of`)."""
    due, _, dispatched, done = served.times
    done = np.sort(done[done >= 0])
    if not done.size:
        return
    since_boot_s = boot_s() - time.monotonic()
    timing.steady_boot_s = int(due.min()) / 1e9 + since_boot_s, int(done[-1]) / 1e9 + since_boot_s
    timing.num_steady_samples = len(done) * ONE_AT_A_TIME.get(cell.protocol, (1, 1))[0]
    if cell.protocol == Protocol.offline:
        timing.blocks = blocks_of(done, int(dispatched.min()))


def blocks_of(done: NDArray[np.int64], began: int) -> list[Block]:
    """Groups successive batches into blocks. Each block lasts at least `Window.block_s` seconds.

    If all batches together take less time, they are one block. Otherwise, the last batches are left out if they are too
    few for a block.

    `done` contains the end time of each sample in ascending order. `began` is the time when the first batch began. The
    times are in nanoseconds.
    """
    ends, nums = np.unique(done, return_counts=True)  # all samples of a batch end at the same time
    blocks, first = list[Block](), 0
    for last, end in enumerate(ends.tolist()):
        seconds = (end - began) / 1e9
        if seconds >= Window.block_s or (last == len(ends) - 1 and not blocks):
            num = int(nums[first : last + 1].sum())
            blocks.append(Block(num_steps=last + 1 - first, num_samples=num, seconds=seconds))
            began = end
            first = last + 1
    return blocks
