"""How a cell's run serves requests: its warm-up, its workers, and what is kept of them."""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from accelbench.measuring.checks import OUTPUT
from accelbench.measuring.runner import Step, Timing
from accelbench.measuring.schedule import boot_s
from accelbench.schema.cell import MAX_SEED, Cell, Window
from accelbench.schema.measurement import Block
from accelbench.schema.text import message_of, one_line
from accelbench.schema.vocab import Protocol, Stop
from accelbench.serving import server
from accelbench.serving.batcher import TIME_LIMIT
from accelbench.serving.server import ONE_AT_A_TIME, Served, Service
from accelbench.serving.summary import ROWS, summarised, write_times

if TYPE_CHECKING:
    from accelbench.engines.cell_run import CellRun

NUM_REQUESTS, NUM_DRAWN = 256, 64  # different ones, at most: of a data set, and of those that are drawn
MOST_WARM = 32  # up to this, batches of each size are computed before requests arrive, if time allows
LEAST_WARM = 2  # steps of whole batches that a warm-up has


def powers_up_to(most: int) -> list[int]:
    """The powers of two below `most`, and `most`: the sizes of batches where each size is compiled."""
    return [*(1 << power for power in range((most - 1).bit_length())), most]


def batch_of(run: "CellRun", pool: Sequence[Any], size: int) -> Any:
    """So many requests, joined."""
    return run.joined([pool[index % len(pool)] for index in range(size)])


class Worker:
    """Has an instance of the network compute batches, in the run's own thread or in a further one."""

    def __init__(self, run: "CellRun", step: Step) -> None:
        self.run, self.step = run, step

    def __call__(self, batch: Any) -> None:
        with self.run.in_worker():
            self.result_of(batch)

    def result_of(self, batch: Any) -> Any:
        step = self.step
        result = step.compute(step.copy_in(batch))
        self.run.backend.wait()
        step.copy_out(result)
        return result

    def warm_up(self, pool: Sequence[Any], sizes: Sequence[int], further: Sequence[int]) -> list[float]:
        """Computes a batch of each size, the largest first, then whole ones; returns the seconds of each of those."""
        # So it does with `further` sizes, in time: libraries keep what they prepare for a size in the thread that asks.

        def seconds_of(size: int) -> float:
            batch = batch_of(self.run, pool, size)
            start = time.perf_counter()
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


def serve(run: "CellRun", step: Step) -> None:
    """Serves requests as the cell's protocol says, and notes their raw times, and what further checks need."""
    cell = run.cell
    timing = run.timing
    pool = run.requests(NUM_REQUESTS)
    workers = [Worker(run, step)]
    workers += [Worker(run, run.further_step()) for _ in range(cell.num_instances - 1)]
    sizes = run.serving_sizes

    def prepare(index: int) -> None:
        further = () if sizes else range(1, min(cell.batch_size, MOST_WARM) + 1)
        took_s = workers[index].warm_up(pool, sizes or powers_up_to(cell.batch_size), further)
        if index == 0:
            timing.first_step_s, *timing.whole_s = took_s
            timing.num_warmup_steps, timing.warmup_total_s = len(took_s), sum(took_s)
        timing.compiled_in_steady_state = -run.backend.compiles()[0]

    service = Service(
        pool=pool, join=run.joined, workers=workers, sizes=sizes, max_batch=cell.batch_size, prepare=prepare
    )
    seed = int(cell.id, 16) % MAX_SEED  # of arrivals: each rate and each process has its own
    served = server.serve(service, cell.protocol, cell.server, seed, run.limits.ends.timeout_s)
    timing.compiled_in_steady_state += run.backend.compiles()[0]
    _note_times(cell, timing, served)
    timing.stop = Stop.timeout if served.ended_early == TIME_LIMIT else None
    run.defects += served.defects
    run.changes += run.backend.changed()
    rows = [getattr(served, row) for row in ROWS]
    digest = None if run.requests_path is None else write_times(rows, run.requests_path)
    run.step = step
    run.serving = replace(summarised(served, cell), sizes=list(sizes), requests_digest=digest)
    try:  # so that what is checked next is a whole batch
        workers[0].result_of(batch_of(run, pool, cell.batch_size))
    except Exception as error:
        if not served.num_errors:
            raise
        run.seen.unchecked[OUTPUT] = f"it failed after its requests too ({one_line(message_of(error))})"


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
            began = end
            first = last + 1
    return blocks
