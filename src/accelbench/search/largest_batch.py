"""Finds the largest batch that fits in memory. Each try is a process that runs one step and leaves a record.

The largest batch is estimated from the peak memory of small batches. Large batches are tried only near the estimate.
"""

import io
import time
from dataclasses import dataclass, field, replace

import psutil
from rich.console import Console

from accelbench.data.arrays import read_counts
from accelbench.devices.registry import look
from accelbench.errors import UserError
from accelbench.grid.plan import data_of, skip_reason
from accelbench.isolation.hosts import Hosts
from accelbench.presentation import say
from accelbench.project import workplace
from accelbench.schema.cell import Cell
from accelbench.schema.record import Record
from accelbench.schema.vocab import MODULE, Device, Mode, Pipeline, Protocol, Status
from accelbench.settings.config import SweepOptions
from accelbench.sweep import run
from accelbench.sweep.context import prepare_missing

MAX_BATCH = 1 << 20
GB = 1e9
# The search ends when the smallest batch that does not fit exceeds the largest batch that fits by at most this share.
TOLERANCE = 1 / 8
# The shares of an estimate that are tried, in this order. If the estimate is right, the limit is between them.
GUESS_SHARES = (0.95, 1.06)
# Two peaks give an estimate if they differ by at least this share of the memory. Smaller differences are noise.
MIN_GROWTH = 0.15
GROWTH = 4  # without an estimate, the next batch is larger by this factor. It should fit, as `MIN_GROWTH` * 4 < 1


@dataclass
class Tries:
    """Records the batches that were tried and whether they fit. Chooses the next batch to try."""

    start: int
    most: int = MAX_BATCH
    memory: int | None = None  # bytes; None if unknown
    largest: int | None = None  # largest batch that fits
    smallest: int | None = None  # smallest batch that does not fit
    peaks: dict[int, int] = field(default_factory=dict)  # batch -> its peak memory in bytes, if known

    def add(self, batch: int, fits: bool, peak: int | None) -> None:
        if fits:
            self.largest = batch
        else:
            self.smallest = batch
        if fits and peak is not None:
            self.peaks[batch] = peak

    def next(self) -> int | None:
        """Returns the batch to try next. Returns None if the largest batch is found.

        The first of these rules that applies is used:
        1. If no batch has fitted yet: `start`, or half of the smallest batch that was tried.
        2. If there is an estimate between the bounds: a batch just below it, then a batch just above it.
        3. If every batch has fitted: a batch `GROWTH` times as large as the largest.
        4. A batch midway between the largest batch that fits and the smallest batch that does not.
        """
        largest, smallest = self.largest, self.smallest
        if largest is None:
            return self.start if smallest is None else smallest // 2 or None
        gap = self.most - largest if smallest is None else smallest - largest - max(1, int(TOLERANCE * largest))
        if gap <= 0:
            return None
        guess = self.guess() or 0
        for share in GUESS_SHARES:
            batch = int(share * guess)
            if largest < batch < (smallest or self.most):
                return batch
        return min(GROWTH * largest, self.most) if smallest is None else (largest + smallest) // 2

    def guess(self) -> int | None:
        """Estimates the largest batch that fits, by a line through the peak memory of two batches.

        Returns None if the memory is unknown, if fewer than two peaks are known, or if they differ too little.
        """
        if self.memory is None or len(self.peaks) < 2:
            return None
        small, large = min(self.peaks), max(self.peaks)
        growth = self.peaks[large] - self.peaks[small]
        if growth < MIN_GROWTH * self.memory:
            return None
        return large + int((self.memory - self.peaks[large]) * (large - small) / growth)

    def say_so_far(self, console: Console) -> None:
        if self.largest is None:
            say(console, "No batch has fitted yet.")
            return
        say(console, f"{self.largest:,} fits{self.took(self.largest)}.")
        guess = self.guess() or 0
        if guess > self.largest:
            say(console, f"About {guess:,} should fit, estimated from the memory of smaller batches.")

    def took(self, batch: int) -> str:
        """The memory of a batch in words; empty if unknown."""
        return f", which takes {self.peaks[batch] / GB:.1f} GB" if batch in self.peaks else ""


def find(
    cell: Cell, options: SweepOptions, console: Console, hosts: Hosts, budget_s: float, most: int = MAX_BATCH
) -> int:
    """Searches for the largest batch, and begins with the cell's batch. Prints the result. Returns the exit status.

    A batch does not fit if memory ran out or the process was killed. Any other failure ends the search. A batch is
    tried only if its process can end within `budget_s`.

    Raises UserError: this machine skips the cell, or the cell's batch is larger than `most`.
    """
    if reason := skip_reason(cell):
        raise UserError(f"--largest-batch: this machine skips the cell: {reason}")
    place = workplace().with_data(options.data_root)
    prepare_missing(place, cell.data, console)
    if cell.data.pipeline in (Pipeline.array, Pipeline.jpeg) and cell.data.name != MODULE:  # other data have no end
        counts = read_counts(data_of([cell], place)[1])
        most = min(most, counts["train" if cell.mode == Mode.train else "test"])
    if cell.batch_size > most:
        raise UserError(f"batch_size={cell.batch_size}: is larger than the largest batch to try: use at most {most}")
    memory = look(cell.device).memory_bytes
    if memory is not None and cell.device == Device.cpu:  # other programs use a part of it
        memory = min(memory, psutil.virtual_memory().available)
    tries = Tries(cell.batch_size, most, memory)
    bound = "" if memory is None else f" in {memory / GB:.1f} GB of memory on the {cell.device}"
    say(console, f"Trying batches of {cell.batch_size:,} to {most:,} samples{bound} ...")
    # In training, the optimizer allocates its memory at the end of the first step. So the second step needs the most.
    warmup = 1 if cell.mode == Mode.train else 0
    step = replace(cell, protocol=Protocol.steps, warmup=warmup, steps=1, breakdown_s=0.0)
    options = replace(options, tracking="none")
    # The lines of a sweep are about speed, which one step does not show.
    quiet = console if options.verbose else Console(file=io.StringIO())
    ends_s = time.monotonic() + budget_s
    wall_s = 0.0
    why_smallest = ""
    while (batch := tries.next()) is not None:
        takes_s = wall_s * max(1.0, batch / (tries.largest or batch))
        if time.monotonic() + takes_s > ends_s:
            tries.say_so_far(console)
            why = f"it takes about {takes_s:.0f} s, longer than the rest of --budget (default: 1m)"
            say(console, f"{batch:,} was not tried: {why}.")
            break
        done = run.run([replace(step, batch_size=batch)], options, quiet, hosts=hosts, show=lambda result: None)
        done.check_request()
        options = replace(options, out=str(done.folder.relative_to(done.folder.parents[1])))
        (record,) = done.records
        fits = record.status == Status.ok
        tries.add(batch, fits, _peak_bytes(record))
        outcome = f"fits{tries.took(batch)}" if fits else f"{record.status}: {record.reason}"
        say(console, f"{batch:,} samples, {record.wall_s:.0f} s: {outcome}")
        if fits:
            wall_s = record.wall_s
        elif record.status in (Status.oom, Status.killed):
            why_smallest = f"{batch:,} does not ({record.reason})"
        else:
            tries.say_so_far(console)
            say(console, f"The search ended: {record.label}: {record.status}: {record.reason}")
            return 1
    else:
        if tries.largest is None:
            say(console, "No batch fits: not even one sample does.")
            return 1
        above = why_smallest or f"more than {most:,} was not tried"
        say(console, f"The largest batch that fits: {tries.largest:,}{tries.took(tries.largest)}; {above}.")
    if options.out is not None:
        say(console, f"Records of the tries: {options.out}")
    return 0


def _peak_bytes(record: Record) -> int | None:
    if record.measurement is None:
        return None
    on_cpu = record.cell.device == Device.cpu
    return record.measurement.peak_host_bytes if on_cpu else record.measurement.peak_device_bytes
