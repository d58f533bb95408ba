"""Finds the largest batch that fits in memory. Each try is a cell with a process and a record of its own."""

import dataclasses
from collections.abc import Callable

from rich.console import Console

from accelbench.errors import UserError
from accelbench.schema.cell import Cell
from accelbench.schema.record import Record
from accelbench.schema.vocab import Status
from accelbench.settings.config import SweepOptions
from accelbench.sweep import run

MAX_BATCH = 1 << 20
# The search ends when the smallest batch that does not fit exceeds the largest that fits by at most this share of it.
TOLERANCE = 1 / 8


def search(fits: Callable[[int], bool], start: int, most: int = MAX_BATCH) -> tuple[int | None, int | None]:
    """Doubles the batch until one does not fit, then halves the gap.

    Args:
        fits: whether a batch fits; tries it.
        start: the first batch to try. If it does not fit, it is halved until one does.
        most: the largest batch to try.

    Returns:
        The largest batch that fits and the smallest that does not; each is None if none was found.
    """
    largest, smallest = None, None
    batch = start
    while smallest is None and batch <= most:
        if fits(batch):
            largest, batch = batch, 2 * batch
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


def find(cell: Cell, options: SweepOptions, console: Console, most: int = MAX_BATCH) -> int:
    """Searches from the cell's batch size, prints the result and returns the exit status.

    A batch fits if its cell is ok. It does not fit if memory ran out or the process was killed. Any other outcome,
    such as a batch larger than the data set, ends the search.

    Raises:
        UserError: the cell's batch size is larger than `most`.
    """
    if cell.batch_size > most:
        raise UserError(f"batch_size={cell.batch_size}: the search starts there and tries at most {most}")
    tried: dict[int, Record] = {}
    folder = options.out

    def fits(batch: int) -> bool:
        nonlocal folder
        cells = [dataclasses.replace(cell, batch_size=each) for each in [*tried, batch]]
        done = run.run(cells, dataclasses.replace(options, out=folder), console)
        done.check_request()
        folder = str(done.folder.relative_to(done.folder.parents[1]))
        tried[batch] = record = done.records[-1]
        if record.status not in (Status.ok, Status.oom, Status.killed):
            raise _OtherEndError(record)
        return record.status == Status.ok

    try:
        largest, smallest = search(fits, cell.batch_size, most)
    except _OtherEndError as end:
        known = max((batch for batch, record in tried.items() if record.status == Status.ok), default=None)
        ended = f"The search ended: {end.record.label}: {end.record.status}: {end.record.reason}"
        console.print(ended, markup=False)
        if known is not None:
            console.print(f"The largest batch that was seen to fit: {known:,}.")
        return 1
    if largest is None:
        console.print("No batch fits: not even one sample does.")
        return 1
    above = tried[smallest].reason if smallest is not None else None
    stopped = f"{smallest:,} does not ({above})" if smallest is not None else f"more than {most:,} was not tried"
    console.print(f"The largest batch that fits: {largest:,}; {stopped}.", soft_wrap=True, markup=False)
    return 0


class _OtherEndError(Exception):
    """A try had an outcome that says nothing about memory."""

    def __init__(self, record: Record) -> None:
        super().__init__(record.reason)
        self.record = record
