"""Finds the largest batch that fits in memory. Each try is a few steps in a process, with a record of its own."""

import dataclasses
from collections.abc import Callable, Mapping

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


def search(fits: Callable[[int], bool], start: int, most: int = MAX_BATCH) -> tuple[int | None, int | None]:
    """Doubles the batch until one does not fit, then halves the gap.

    Args:
        fits: whether a batch fits; tries it.
        start: the first batch to try. If it does not fit, it is halved until one does.
        most: the largest batch to try, at least `start`.

    Returns:
        The largest batch that fits and the smallest that does not; each is None if none was found.
    """
    largest, smallest = None, None
    batch = start
    while smallest is None and largest != most:
        if fits(batch):
            largest, batch = batch, min(2 * batch, most)
        else:
            smallest = batch
    while largest is None and smallest is not None and smallest > 1:
        if fits(smallest // 2):
            largest = smallest // 2
        else:
            smallest //= 2
    while largest is not None and smallest is not None and smallest - largest > max(1, TOLERANCE * largest):
        middle = (largest + smallest) // 2
        largest, smallest = (middle, smallest) if fits(middle) else (largest, middle)
    return largest, smallest


def find(cell: Cell, options: SweepOptions, console: Console, hosts: Hosts, most: int = MAX_BATCH) -> int:
    """Searches from the cell's batch size, prints the result and returns the exit status.

    A batch fits if its cell is ok. It does not fit if memory ran out or the process was killed. Any other outcome ends
    the search. The tries are not delivered to a tracker: so few steps measure no speed.

    Args:
        cell: its protocol is replaced by a few steps.
        options: of its run.
        console: where tries and result are printed.
        hosts: from which the tries are forked.
        most: the largest batch to try; fewer if the data set has fewer samples.

    Raises:
        UserError: the cell's batch size is larger than `most`.
    """
    place = workplace().with_data(options.data_root)
    prepare_missing(place, cell.data, console)
    most = min(most, _num_samples(cell, place) or most)
    if cell.batch_size > most:
        raise UserError(f"batch_size={cell.batch_size}: the search starts there and tries at most {most}")
    cell = dataclasses.replace(cell, protocol=Protocol.steps, warmup=1, steps=1, breakdown_s=0.0)
    options = dataclasses.replace(options, tracking="none")
    memory = look(cell.device).memory_bytes
    bound = "" if memory is None else f" in the {memory / GB:.1f} GB of memory that {cell.device} has"
    console.print(f"Trying batches of {cell.batch_size:,} to {most:,} samples{bound} ...", soft_wrap=True, markup=False)
    tried: dict[int, Record] = {}

    def fits(batch: int) -> bool:
        nonlocal options
        one = dataclasses.replace(cell, batch_size=batch)
        done = run.run([one], options, console, hosts=hosts, show=lambda result: None)
        done.check_request()
        options = dataclasses.replace(options, out=str(done.folder.relative_to(done.folder.parents[1])))
        (tried[batch],) = done.records
        if tried[batch].status not in (Status.ok, Status.oom, Status.killed):
            raise _OtherEndError(tried[batch])
        return tried[batch].status == Status.ok

    try:
        largest, smallest = search(fits, cell.batch_size, most)
    except _OtherEndError as end:
        return _tell_other_end(end.record, tried, console)
    finally:
        if options.out is not None:
            console.print(f"Records of the tries: {shown(place.root / options.out)}", markup=False, soft_wrap=True)
    return _tell(largest, smallest, most, tried, console)


def _tell(largest: int | None, smallest: int | None, most: int, tried: Mapping[int, Record], console: Console) -> int:
    if largest is None:
        console.print("No batch fits: not even one sample does.")
        return 1
    above = f"{smallest:,} does not ({tried[smallest].reason})" if smallest else f"more than {most:,} was not tried"
    fitting = f"The largest batch that fits: {largest:,}{_peak(tried[largest])}"
    console.print(f"{fitting}; {above}.", soft_wrap=True, markup=False)
    return 0


def _num_samples(cell: Cell, place: Workplace) -> int | None:
    """Samples of the data set that the cell reads; None if nothing tells, or random images have no end."""
    if cell.data.pipeline not in (Pipeline.array, Pipeline.jpeg) or cell.data.name == MODULE:
        return None
    _, folder = data_of([cell], place)
    return read_counts(folder)["train" if cell.mode == Mode.train else "test"]


def _peak(record: Record) -> str:
    """The peak of memory that its batch took, in words; empty if unknown."""
    measured = record.measurement
    if measured is None:
        return ""
    peak = measured.peak_host_bytes if record.cell.device == Device.cpu else measured.peak_device_bytes
    return "" if peak is None else f", which takes {peak / GB:.1f} GB"


def _tell_other_end(record: Record, tried: Mapping[int, Record], console: Console) -> int:
    known = max((batch for batch, record in tried.items() if record.status == Status.ok), default=None)
    console.print(f"The search ended: {record.label}: {record.status}: {record.reason}", markup=False)
    if known is not None:
        console.print(f"The largest batch that was seen to fit: {known:,}{_peak(tried[known])}.")
    return 1


class _OtherEndError(Exception):
    """A try had an outcome that says nothing about memory."""

    def __init__(self, record: Record) -> None:
        super().__init__(record.reason)
        self.record = record
