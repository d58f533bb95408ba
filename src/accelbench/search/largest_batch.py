"""Finds the largest batch that fits in memory. Each try is one step in a process, with a record of its own.

The peak memory of small batches tells where the limit is about: large batches are tried only around it, if at all.
"""

import io
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

import psutil
from rich.console import Console

from accelbench.data.arrays import read_counts
from accelbench.devices.registry import look
from accelbench.errors import UserError
from accelbench.grid.plan import data_of, skip_reason
from accelbench.isolation.hosts import Hosts
from accelbench.presentation import say
from accelbench.project import shown, workplace
from accelbench.schema.cell import Cell
from accelbench.schema.record import Record
from accelbench.schema.vocab import MODULE, Device, Mode, Pipeline, Protocol, Status
from accelbench.settings.config import SweepOptions
from accelbench.sweep import run
from accelbench.sweep.context import prepare_missing

MAX_BATCH = 1 << 20
GB = 1e9
# The search ends when the smallest batch that does not fit exceeds the largest that fits by at most this share of it.
TOLERANCE = 1 / 8
# What is tried of a guess, in this order. The two enclose the limit within the tolerance if the guess is right.
GUESS_SHARES = (0.95, 1.06)
# A line is drawn through two peaks if they differ by this share of the memory; smaller differences are noise.
MIN_GROWTH = 0.15
GROWTH = 4  # from one try to the next, while the peaks draw no line: below the limit, since `MIN_GROWTH` * 4 < 1


def search(
    fits: Callable[[int], bool], start: int, most: int = MAX_BATCH, guess: Callable[[], int | None] = lambda: None
) -> tuple[int | None, int | None]:
    """The largest batch that fits and the smallest that does not; each is None if none was found.

    Tries batches from `start`, to `most` at most: just below and above the guess where there is one, else larger ones,
    and then halves the gap. If the first batch does not fit, it is halved until one does.
    """
    largest, smallest = None, None
    batch: int | None = start
    while batch:
        if fits(batch):
            largest = batch
        else:
            smallest = batch
        batch = smallest // 2 if largest is None and smallest else _next(largest or 0, smallest, most, guess())
    return largest, smallest


def _next(largest: int, smallest: int | None, most: int, guess: int | None) -> int | None:
    """The batch to try next; None if the search has ended."""
    if largest == most or (smallest is not None and smallest - largest <= max(1, TOLERANCE * largest)):
        return None
    tries = [] if guess is None else [int(share * guess) for share in GUESS_SHARES]
    if between := [batch for batch in tries if largest < batch < (smallest or most)]:
        return between[0]
    return min(GROWTH * largest, most) if smallest is None else (largest + smallest) // 2


def expected_limit(peaks: Mapping[int, int], memory: int) -> int | None:
    """The largest batch that should fit, by the line through the peaks (batch size -> bytes); None if there is none."""
    if len(peaks) < 2:
        return None
    small, large = min(peaks), max(peaks)
    if peaks[large] - peaks[small] < MIN_GROWTH * memory:
        return None
    return large + int((memory - peaks[large]) * (large - small) / (peaks[large] - peaks[small]))


def find(
    cell: Cell, options: SweepOptions, console: Console, hosts: Hosts, budget_s: float, most: int = MAX_BATCH
) -> int:
    """Searches from the cell's batch size, prints the result and returns the exit status.

    A batch does not fit if memory ran out or the process was killed; any other failure ends the search. No try begins
    that would end after `budget_s`. Raises UserError: this machine skips the cell, or it has more samples than `most`.
    """
    if reason := skip_reason(cell):
        raise UserError(f"--largest-batch: this machine skips the cell: {reason}")
    place = workplace().with_data(options.data_root)
    prepare_missing(place, cell.data, console)
    if cell.data.pipeline in (Pipeline.array, Pipeline.jpeg) and cell.data.name != MODULE:  # else it has no end
        counts = read_counts(data_of([cell], place)[1])
        most = min(most, counts["train" if cell.mode == Mode.train else "test"])
    if cell.batch_size > most:
        raise UserError(f"batch_size={cell.batch_size}: the search starts there and tries at most {most}")
    tries = _Tries(cell, options, console, hosts, budget_s)
    bound = "" if tries.memory is None else f" in {tries.memory / GB:.1f} GB of memory on the {cell.device}"
    tries.say(f"Trying batches of {cell.batch_size:,} to {most:,} samples{bound} ...")
    try:
        largest, smallest = search(tries.fits, cell.batch_size, most, tries.guess)
    except _Ended as end:
        tries.say_so_far()
        tries.say(str(end))
        return end.status
    finally:
        if tries.options.out is not None:
            tries.say(f"Records of the tries: {shown(place.root / tries.options.out)}")
    if largest is None:
        tries.say("No batch fits: not even one sample does.")
        return 1
    failed = f"{smallest:,} does not ({tries.done[smallest].reason})" if smallest else ""
    above = failed or f"more than {most:,} was not tried"
    tries.say(f"The largest batch that fits: {largest:,}{tries.peak(largest)}; {above}.")
    return 0


class _Ended(Exception):  # noqa: N818  # no mistake of anybody's
    def __init__(self, why: str, status: int) -> None:
        super().__init__(why)
        self.status = status  # of the command


class _Tries:
    """Runs the cell with one batch size after the other, each for one step in a process of its own."""

    def __init__(self, cell: Cell, options: SweepOptions, console: Console, hosts: Hosts, budget_s: float) -> None:
        # In training the optimizer takes its memory at the end of the first step, so that the second needs the most.
        warmup = 1 if cell.mode == Mode.train else 0
        self.cell = replace(cell, protocol=Protocol.steps, warmup=warmup, steps=1, breakdown_s=0.0)
        self.options = replace(options, tracking="none")  # its `out` is the folder of the records, once there is one
        self.console, self.hosts = console, hosts
        self.ends_s = time.monotonic() + budget_s
        self.memory = look(cell.device).memory_bytes  # None if unknown
        if self.memory is not None and cell.device == Device.cpu:  # other programs have a part of it
            self.memory = min(self.memory, psutil.virtual_memory().available)
        self.done: dict[int, Record] = {}  # of the tries, by batch size
        self.largest: int | None = None  # that fitted

    def say(self, line: str) -> None:
        say(self.console, line)

    def fits(self, batch: int) -> bool:
        """Tries a batch, unless it would take too long: in proportion to the largest batch that fitted."""
        takes_s = self.done[self.largest].wall_s * max(1.0, batch / self.largest) if self.largest else 0.0
        if time.monotonic() + takes_s > self.ends_s:
            more = f"{batch:,} was not tried: it takes about {takes_s:.0f} s"
            raise _Ended(f"{more}, more than --budget (1m if unset) leaves.", 0)
        # A sweep's lines are about speed, which one step does not show.
        console = self.console if self.options.verbose else Console(file=io.StringIO())
        one = replace(self.cell, batch_size=batch)
        done = run.run([one], self.options, console, hosts=self.hosts, show=lambda result: None)
        done.check_request()
        self.options = replace(self.options, out=str(done.folder.relative_to(done.folder.parents[1])))
        (record,) = done.records
        self.done[batch] = record
        fits = record.status == Status.ok
        outcome = f"fits{self.peak(batch)}" if fits else f"{record.status}: {record.reason}"
        self.say(f"{batch:,} samples, {record.wall_s:.0f} s: {outcome}")
        if not fits and record.status not in (Status.oom, Status.killed):
            raise _Ended(f"The search ended: {record.label}: {record.status}: {record.reason}", 1)
        if fits:
            self.largest = max(batch, self.largest or 0)
        return fits

    def guess(self) -> int | None:
        """The largest batch that should fit; None if the tries do not tell."""
        peaks = {batch: peak for batch, record in self.done.items() if (peak := _peak_bytes(record)) is not None}
        return None if self.memory is None else expected_limit(peaks, self.memory)

    def peak(self, batch: int) -> str:
        """The memory that a batch took, in words; empty if unknown."""
        peak = _peak_bytes(self.done[batch])
        return "" if peak is None else f", which takes {peak / GB:.1f} GB"

    def say_so_far(self) -> None:
        if self.largest is None:
            self.say("No batch was seen to fit yet.")
            return
        self.say(f"{self.largest:,} fits{self.peak(self.largest)}.")
        if (guess := self.guess()) is not None and guess > self.largest:
            self.say(f"About {guess:,} should fit: estimated from the memory of smaller ones.")


def _peak_bytes(record: Record) -> int | None:
    measured = record.measurement
    if measured is None or record.status != Status.ok:
        return None
    return measured.peak_host_bytes if record.cell.device == Device.cpu else measured.peak_device_bytes
