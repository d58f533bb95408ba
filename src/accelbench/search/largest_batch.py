"""Finds the largest batch that fits in memory. Each try is one step in a process, with a record of its own.

The peak memory of small batches tells where the limit is about: memory grows in proportion to the batch. Large batches,
which take long, are tried only just below and just above it, and only if there is time: else the limit is an estimate.
"""

import dataclasses
import io
import time
from collections.abc import Callable, Mapping

import psutil
from rich.console import Console

from accelbench.data.manifest import read_counts
from accelbench.devices.registry import look
from accelbench.errors import UserError
from accelbench.grid.prepare import data_of
from accelbench.isolation.hosts import Hosts
from accelbench.project import Workplace, shown, workplace
from accelbench.schema.cell import Cell
from accelbench.schema.record import Record
from accelbench.schema.vocab import MODULE, Device, Mode, Pipeline, Protocol, Status
from accelbench.settings.config import SweepOptions
from accelbench.sweep import run
from accelbench.sweep.missing_data import prepare_missing

MAX_BATCH = 1 << 20
GB = 1e9
# The search ends when the smallest batch that does not fit exceeds the largest that fits by at most this share of it.
TOLERANCE = 1 / 8
# What is tried of a guess, in this order. The two enclose the limit within the tolerance if the guess is right.
GUESS_SHARES = (0.95, 1.06)
# A line is drawn through two peaks if they differ by this share of the memory; smaller differences are noise.
MIN_GROWTH = 0.15
GROWTH = 4  # from one try to the next, while the peaks draw no line: below the limit, since `MIN_GROWTH` * 4 < 1


def no_guess() -> int | None:
    """For `search` without a guess."""
    return None


def search(
    fits: Callable[[int], bool], start: int, most: int = MAX_BATCH, guess: Callable[[], int | None] = no_guess
) -> tuple[int | None, int | None]:
    """Tries batches: just below and above the guess where there is one, else larger ones, and then halves the gap.

    Args:
        fits: whether a batch fits; tries it.
        start: the first batch to try. If it does not fit, it is halved until one does.
        most: the largest batch to try, at least `start`.
        guess: the largest batch that should fit, from the tries so far; None if they don't tell.

    Returns:
        The largest batch that fits and the smallest that does not; each is None if none was found.
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
    between = [batch for batch in tries if largest < batch < (smallest or most)]
    if between:
        return between[0]
    return min(GROWTH * largest, most) if smallest is None else (largest + smallest) // 2


def expected_limit(peaks: Mapping[int, int], memory: int) -> int | None:
    """The largest batch that should fit, along the line through the peaks of the smallest and the largest batch.

    Args:
        peaks: batch size -> bytes.
        memory: bytes that there are.

    Returns:
        None if the peaks are too near to each other to draw a line through.
    """
    if len(peaks) < 2:
        return None
    small, large = min(peaks), max(peaks)
    if peaks[large] - peaks[small] < MIN_GROWTH * memory:
        return None
    return large + int((memory - peaks[large]) * (large - small) / (peaks[large] - peaks[small]))


def find(
    cell: Cell,
    options: SweepOptions,
    console: Console,
    hosts: Hosts,
    budget_s: float,
    most: int = MAX_BATCH,
) -> int:
    """Searches from the cell's batch size, prints the result and returns the exit status.

    A batch fits if its cell is ok. It does not fit if memory ran out or the process was killed. Any other outcome ends
    the search. The tries are not delivered to a tracker: so few steps measure no speed.

    Args:
        cell: its protocol is replaced by one step.
        options: of its run.
        console: where tries and result are printed.
        hosts: from which the tries are forked.
        budget_s: no try begins that would end later than after this many seconds.
        most: the largest batch to try; fewer if the data set has fewer samples.

    Raises:
        UserError: the cell's batch size is larger than `most`.
    """
    place = workplace().with_data(options.data_root)
    prepare_missing(place, cell.data, console)
    most = min(most, _num_samples(cell, place) or most)
    if cell.batch_size > most:
        raise UserError(f"batch_size={cell.batch_size}: the search starts there and tries at most {most}")
    tries = _Tries(cell, options, console, hosts, budget_s)
    bound = "" if tries.memory is None else f" in {tries.memory / GB:.1f} GB of memory on the {cell.device}"
    console.print(f"Trying batches of {cell.batch_size:,} to {most:,} samples{bound} ...", soft_wrap=True, markup=False)
    try:
        largest, smallest = search(tries.fits, cell.batch_size, most, tries.guess)
    except _NoTimeError as end:
        return _tell_estimate(end, tries.guess(), tries.done, console)
    except _OtherEndError as end:
        return _tell_other_end(end.record, tries.done, console)
    finally:
        if tries.options.out is not None:
            text = f"Records of the tries: {shown(place.root / tries.options.out)}"
            console.print(text, markup=False, soft_wrap=True)
    return _tell(largest, smallest, most, tries.done, console)


class _Tries:
    """Runs the cell with one batch size after the other, each for one step in a process of its own.

    Attributes:
        memory: bytes that there are for a cell; None if unknown.
        done: batch size -> the record of its try.
        options: whose `out` is the folder of the records, once there is one.
    """

    def __init__(self, cell: Cell, options: SweepOptions, console: Console, hosts: Hosts, budget_s: float) -> None:
        # In training the optimizer takes its memory at the end of the first step, so that the second needs the most.
        warmup = 1 if cell.mode == Mode.train else 0
        self.cell = dataclasses.replace(cell, protocol=Protocol.steps, warmup=warmup, steps=1, breakdown_s=0.0)
        self.options = dataclasses.replace(options, tracking="none")
        self.console, self.hosts = console, hosts
        self.ends_s = time.monotonic() + budget_s
        self.memory = look(cell.device).memory_bytes
        if self.memory is not None and cell.device == Device.cpu:  # other programs have a part of it
            self.memory = min(self.memory, psutil.virtual_memory().available)
        self.done: dict[int, Record] = {}

    def fits(self, batch: int) -> bool:
        """Tries a batch, unless it would take too long."""
        takes_s = self._expected_s(batch)
        if time.monotonic() + takes_s > self.ends_s:
            raise _NoTimeError(batch, takes_s)
        one = dataclasses.replace(self.cell, batch_size=batch)
        # A sweep's lines are about speed, which one step does not show.
        console = self.console if self.options.verbose else Console(file=io.StringIO())
        done = run.run([one], self.options, console, hosts=self.hosts, show=lambda result: None)
        done.check_request()
        self.options = dataclasses.replace(self.options, out=str(done.folder.relative_to(done.folder.parents[1])))
        (record,) = done.records
        self.done[batch] = record
        fits = f"fits{_peak(record)}" if record.status == Status.ok else f"{record.status}: {record.reason}"
        self.console.print(f"{batch:,} samples, {record.wall_s:.0f} s: {fits}", markup=False, soft_wrap=True)
        if record.status not in (Status.ok, Status.oom, Status.killed):
            raise _OtherEndError(record)
        return record.status == Status.ok

    def guess(self) -> int | None:
        """The largest batch that should fit; None if the tries do not tell."""
        peaks = {batch: peak for batch, record in self.done.items() if (peak := _peak_bytes(record)) is not None}
        return None if self.memory is None else expected_limit(peaks, self.memory)

    def _expected_s(self, batch: int) -> float:
        """What a try is expected to take, in proportion to the largest batch that fitted; 0 for the first one."""
        largest = max(_fitting(self.done), default=None)
        return 0.0 if largest is None else self.done[largest].wall_s * max(1.0, batch / largest)


def _tell(largest: int | None, smallest: int | None, most: int, tried: Mapping[int, Record], console: Console) -> int:
    if largest is None:
        console.print("No batch fits: not even one sample does.")
        return 1
    above = f"{smallest:,} does not ({tried[smallest].reason})" if smallest else f"more than {most:,} was not tried"
    fitting = f"The largest batch that fits: {largest:,}{_peak(tried[largest])}"
    console.print(f"{fitting}; {above}.", soft_wrap=True, markup=False)
    return 0


def _tell_estimate(end: "_NoTimeError", guess: int | None, tried: Mapping[int, Record], console: Console) -> int:
    """What is known when the time is over."""
    fitting = _fitting(tried)
    failing = tried.keys() - fitting
    text = f"{max(fitting):,} fits{_peak(tried[max(fitting)])}"
    text += f"; {min(failing):,} does not" if failing else ""
    console.print(f"{text}.", soft_wrap=True, markup=False)
    if guess is not None and guess > max(fitting):
        sizes = f"{min(fitting):,} and {max(fitting):,}"
        console.print(f"About {guess:,} should fit: estimated from the memory of {sizes}.", markup=False)
    more = f"{end.batch:,} was not tried: it takes about {end.takes_s:.0f} s, more than --budget (1m if unset) leaves."
    console.print(more, markup=False, soft_wrap=True)
    return 0


def _fitting(tried: Mapping[int, Record]) -> list[int]:
    """The batches that fitted."""
    return [batch for batch, record in tried.items() if record.status == Status.ok]


def _num_samples(cell: Cell, place: Workplace) -> int | None:
    """Samples of the data set that the cell reads; None if nothing tells, or random images have no end."""
    if cell.data.pipeline not in (Pipeline.array, Pipeline.jpeg) or cell.data.name == MODULE:
        return None
    _, folder = data_of([cell], place)
    return read_counts(folder)["train" if cell.mode == Mode.train else "test"]


def _peak_bytes(record: Record) -> int | None:
    """The peak of memory that its batch took; None if it did not fit or nothing tells."""
    measured = record.measurement
    if measured is None or record.status != Status.ok:
        return None
    return measured.peak_host_bytes if record.cell.device == Device.cpu else measured.peak_device_bytes


def _peak(record: Record) -> str:
    """The same in words; empty if unknown."""
    peak = _peak_bytes(record)
    return "" if peak is None else f", which takes {peak / GB:.1f} GB"


def _tell_other_end(record: Record, tried: Mapping[int, Record], console: Console) -> int:
    known = max(_fitting(tried), default=None)
    console.print(f"The search ended: {record.label}: {record.status}: {record.reason}", markup=False)
    if known is not None:
        console.print(f"The largest batch that was seen to fit: {known:,}{_peak(tried[known])}.")
    return 1


class _NoTimeError(Exception):
    """A try would take longer than there is time for."""

    def __init__(self, batch: int, takes_s: float) -> None:
        super().__init__(batch)
        self.batch, self.takes_s = batch, takes_s


class _OtherEndError(Exception):
    """A try had an outcome that says nothing about memory."""

    def __init__(self, record: Record) -> None:
        super().__init__(record.reason)
        self.record = record
