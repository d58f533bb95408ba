"""The sweep: measures one cell after another, and writes a record for each, however it ends."""

import math
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from rich.console import Console

from accelbench.answers.cells import Process
from accelbench.errors import ChangedError, Interrupted, UserError
from accelbench.grid.plan import Planned, in_order
from accelbench.isolation.hosts import Hosts
from accelbench.judging.verdict import is_retried
from accelbench.lifeline import ending_as_ctrl_c
from accelbench.presentation import counted
from accelbench.project import CONFIRMED, shown
from accelbench.schema.cell import UNEXPECTED, Cell, Status
from accelbench.schema.record import Record, listed
from accelbench.settings.config import Retry, SweepOptions
from accelbench.sinks.delivery import Delivery
from accelbench.sweep.session import Session
from accelbench.sweep.terminal import conclude


@dataclass
class SweepResult:
    """How a sweep ended."""

    folder: Path  # of the records
    records: list[Record] = field(default_factory=list)  # of planned cells, from this sweep or an earlier one
    sweep_id: str = ""  # the sweep's id in its records

    @property
    def num_unexpected(self) -> int:
        return sum(record.status in UNEXPECTED for record in self.records)

    def check_request(self) -> None:
        """Raises a UserError with the reasons if all cells that were not skipped failed because of a user's mistake."""
        tried = [record for record in self.records if record.status != Status.skipped]
        if tried and all(record.user_error for record in tried):
            raise UserError("\n".join(listed(list(dict.fromkeys(str(record.reason) for record in tried)))))


def run(
    cells: Sequence[Cell],
    options: SweepOptions,
    console: Console,
    out: Path | None = None,
    *,
    hosts: Hosts,
    show: Callable[[SweepResult], None] | None = None,
    measure: Callable[[Session, Delivery], list[Record]] | None = None,
) -> SweepResult:
    """Measures every cell that has no record yet, and writes a record for each, however it ends.

    Raises UserError if the sweep could not start or continue, for a reason that the user can correct. Raises
    Interrupted if the user ended the sweep, after `show` has printed the result so far.

    Args:
        out: folder of a pipeline's suite, whose plan gets exactly these cells. None: the records go to `out=` or to a
            new folder under runs/, and the plan there keeps its earlier cells.
        hosts: the processes that cells are forked from. The caller ends them.
        show: prints the result. None: `conclude` prints it.
        measure: measures the cells elsewhere, such as on a cluster, and returns their records.
    """
    session = Session.begin(cells, options, console, hosts, out=out)
    result = SweepResult(session.folder, sweep_id=session.sweep_id)
    show = show or partial(conclude, console=console)
    is_confirming = session.folder.parent.name == CONFIRMED  # its cells belong to another sweep
    with Delivery(options.tracking, session.place.store, is_confirming=is_confirming) as delivery:
        with nullcontext() if measure else session.alone():
            # This comes after the wait, since the plan may have changed in it.
            session.read_earlier(keeps=out is None)
            planned = session.prepare(cells).planned
            try:
                result.records = (measure or _measure)(session, delivery)
            except (KeyboardInterrupt, ChangedError) as stop:
                result.records, _ = known(session, planned)
                if result.records:
                    show(result)
                if isinstance(stop, ChangedError):
                    raise
                if result.records:
                    done = f"{len(result.records)} of {counted(len(planned), 'cell')} have their record"
                    raise Interrupted(f"; {done}, in", shown(result.folder)) from stop
                raise Interrupted(" before the first cell") from stop
        if result.records:
            show(result)
        with console.status("Delivering to the tracker ...") if console.is_terminal else nullcontext():
            delivery.finish(map(Process.of, result.records))
        if loss := delivery.loss():
            session.say(loss, "yellow")
    return result


def _measure(session: Session, delivery: Delivery) -> list[Record]:
    """Measures the cells without a record on this machine, until the budget ends. Returns the records of all cells."""
    planned = session.ready.planned
    records, todo = known(session, planned)
    if records:
        session.say(f"{len(records)} of {len(planned)} cells have their record already.")
    ends_s = time.monotonic() + (session.options.ends_after_s or math.inf)
    session.write_plan(planned)
    if not todo:
        return records
    with ending_as_ctrl_c(), session.measuring(todo):
        if sum(item.skip_reason is None for item in todo) > 1:
            delivery.open()  # while the host imports its framework
        for item in todo:
            if time.monotonic() >= ends_s:
                num = counted(len(planned), "cell")
                session.say(f"The budget is used up: {len(records)} of {num} have their record.")
                break
            record = session.measure(item)
            records.append(record)
            delivery.add(record)
            delivery.deliver()
    # In the plan's order: the first setting of each job is its reference, even if it was measured last.
    places = {item.record_name: place for place, item in enumerate(planned)}
    return sorted(records, key=lambda record: places[record.name])


def known(session: Session, planned: Sequence[Planned]) -> tuple[list[Record], list[Planned]]:
    """Returns the records that are still valid, and the cells to measure. Sets unreadable records aside."""
    records = session.read_records([session.folder / f"{item.record_name}.json" for item in planned])
    by_name = {record.name: record for record in records}
    done, todo = [], []
    for item in planned:
        existing = by_name.get(item.record_name)
        # A cell that was skipped earlier may run now, or the reverse, with the same identity.
        if (
            existing is not None
            and (existing.status == Status.skipped) == (item.skip_reason is not None)
            and stands(existing, session.options.retry, item.cell)
        ):
            done.append(existing)
        else:
            todo.append(item)
    return done, in_order(todo)


def stands(record: Record, retry: Retry, cell: Cell) -> bool:
    """Is true if the record is still valid.

    Is false if `retry` asks for the cell again, or if a time limit cut the cell off and the limit is longer now.
    """
    is_longer = record.status == Status.ok and record.was_cut(cell.timeout_s)
    return not (is_longer or (retry == Retry.failed and is_retried(record)))
