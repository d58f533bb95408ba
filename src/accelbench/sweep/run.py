"""The sweep: cells -> records, one cell after another, a record for each whatever happens."""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from accelbench.answers.process import Process
from accelbench.errors import UserError
from accelbench.grid.plan import Planned
from accelbench.grid.prepare import Prepared
from accelbench.isolation.hosts import Hosts
from accelbench.judging import disturbed
from accelbench.judging.disturbed import DISTURBED, is_retried
from accelbench.presentation import duration
from accelbench.project import PLAN, shown
from accelbench.schema import plan_file
from accelbench.schema.cell import Cell
from accelbench.schema.plan_file import WantedCell
from accelbench.schema.record import Record, listed
from accelbench.schema.vocab import UNEXPECTED, Status
from accelbench.settings.config import Retry, SweepOptions
from accelbench.sweep.context import SweepContext
from accelbench.sweep.delivery import Delivery
from accelbench.sweep.kept import KeptFiles, read_or_set_aside
from accelbench.sweep.progress import outcome
from accelbench.sweep.session import NOT_JUDGED, Session


@dataclass
class SweepResult:
    """How a sweep ended."""

    folder: Path  # of the records
    records: list[Record] = field(default_factory=list)  # of each planned cell, from this sweep or an earlier one
    links: dict[str, str] = field(default_factory=dict)  # tracker -> the run of the only cell, if it was measured now

    @property
    def num_unexpected(self) -> int:
        return sum(record.status in UNEXPECTED for record in self.records)

    def check_request(self) -> None:
        """Raises a UserError if a mistake in the user's request made every cell fail that was not skipped."""
        tried = [record for record in self.records if record.status != Status.skipped]
        if tried and all(record.user_error for record in tried):
            raise UserError("; ".join(dict.fromkeys(str(record.reason) for record in tried)))


Show = Callable[[SweepResult], None]
Measure = Callable[[Prepared, Delivery], list[Record]]


def run(
    cells: Sequence[Cell],
    options: SweepOptions,
    console: Console,
    out: Path | None = None,
    *,
    hosts: Hosts,
    show: Show | None = None,
) -> SweepResult:
    """Measures every cell that has no record yet, and writes a record for each, whatever happens.

    Trackers get the record of one of several cells after the timed part of a later one; a single record after `show`.

    Args:
        out: the folder of a pipeline's suite, which wants these cells and no others; None for the user's `out=`, whose
            plan gets these cells in addition to its own, or for a new folder under runs/.
        hosts: from which the cells are forked. Those that the cells need are started; the caller ends them.
        show: shows the result once every cell has its record; None: as `conclude` does.

    Raises:
        UserError: the sweep could not start, or not go on, for a reason that the user can mend.
    """
    context = SweepContext.begin(cells, options, console, hosts, out=out)
    return carry_out(
        context,
        cells,
        lambda ready, delivery: _measure(context, ready, delivery),
        is_joined=out is None,
        machine=context.alone(),
        show=show,
    )


def carry_out(
    context: SweepContext,
    cells: Sequence[Cell],
    measure: Measure,
    *,
    is_joined: bool,
    machine: AbstractContextManager[None],
    show: Show | None,
) -> SweepResult:
    """Prepares the cells, has them measured, shows the result and delivers it.

    Args:
        measure: returns the records of the planned cells.
        is_joined: whether the cells join those of the folder's plan.
        machine: holds what is needed to measure; afterwards the rest is delivered.
        show: as in `run`.
    """
    with Delivery(context.options.tracking, context.place.store) as delivery:
        with machine:
            # After the wait, in which the plan may have changed.
            context.earlier = plan_file.cells_in(context.folder) if is_joined else []
            ready = context.prepare(cells)
            with context.telling_where_it_stopped(ready):
                context.set_aside_plan()
                result = SweepResult(context.folder, measure(ready, delivery))
        if result.records:
            (show or (lambda result: conclude(result, context.console)))(result)
        _deliver_rest(context, delivery, result)
        if len(ready.planned) == len(result.records) == 1 and result.records[0].sweep_id == context.sweep_id:
            result.links = delivery.links(result.records[0])
    return result


def _measure(context: SweepContext, ready: Prepared, delivery: Delivery) -> list[Record]:
    kept = KeptFiles()
    wanted = [WantedCell(item.cell, item.record_name, item.label) for item in ready.planned]
    context.write_plan(wanted)
    kept.note(context.folder / PLAN, lambda: context.write_plan(wanted))
    measured, todo = known(context, ready.planned)
    for record in measured:
        kept.note_record(record, context.folder)
    if measured:
        context.say(f"{len(measured)} of {len(ready.planned)} cells have their record already.")
    context.hosts.meanwhile = delivery.deliver
    try:
        with Session(context, ready, todo) as session:
            if sum(item.skip_reason is None for item in todo) > 1:
                delivery.open()  # while the host imports its framework
            for item in todo:
                record = session.judge(session.measure(item))
                kept.note_record(record, context.folder)
                session.show(record)
                delivery.add(record)
                measured.append(record)
    finally:  # an interrupted sweep keeps its records too
        say_restored(kept.restore(), context)
    return measured


def _deliver_rest(context: SweepContext, delivery: Delivery, result: SweepResult) -> None:
    """Delivers what the trackers have not got yet, and says what did not reach them."""
    console = context.console
    with console.status("Delivering to the tracker ...") if console.is_terminal else nullcontext():
        delivery.finish()
        delivery.relate(map(Process.of, result.records))
    for line in delivery.losses():
        console.print(line, style="yellow", markup=False)


def known(context: SweepContext, planned: Sequence[Planned]) -> tuple[list[Record], list[Planned]]:
    """The records that earlier sweeps left in the folder for planned cells, and the cells still to measure.

    A record that can't be read is set aside, and its cell measured again.
    """
    found, lines = read_or_set_aside([context.folder / f"{item.record_name}.json" for item in planned])
    for line in listed([f"{line}, its cell is measured again" for line in lines]):
        context.say(line, "yellow")
    by_name = {record.name: record for record in found}
    done, todo = [], []
    for item in planned:
        existing = by_name.get(item.record_name)
        if existing is not None and _counts(existing, item, context.options.retry):
            done.append(existing)
        else:
            todo.append(item)
    return done, todo


def _counts(existing: Record, item: Planned, retry: Retry) -> bool:
    """Whether the cell's record from an earlier sweep stands; else the cell is measured again."""
    was_skipped, is_skipped = existing.status == Status.skipped, item.skip_reason is not None
    if was_skipped != is_skipped:  # what this machine supports has changed, and no part of the identity did
        return False
    return existing.reason != NOT_JUDGED and not (retry == Retry.failed and is_retried(existing))


def say_restored(paths: Sequence[Path], context: SweepContext) -> None:
    """Says which files had to be written again."""
    if paths:
        text = (
            f"{len(paths)} files were deleted or changed while the sweep ran, perhaps by the code of a cell, and have "
            "been written again:"
        )
        context.say("\n  ".join([text, *listed([shown(path) for path in paths])]), "yellow")


def say_skipped(reasons: Sequence[str | None], console: Console) -> None:
    """Says why cells were skipped; `reasons` has one for each."""
    for reason, num in Counter(reasons).most_common():
        console.print(f"  skipped {num}: {reason}", style="dim", highlight=False, markup=False)


def conclude(result: SweepResult, console: Console) -> None:
    """Prints how the cells ended, why cells were skipped, and where the records are."""
    why = {record.name: reason for record in result.records if (reason := disturbed.reason(record))}
    counts = Counter(DISTURBED if record.name in why else record.status.value for record in result.records)
    console.print(", ".join(f"{num} {outcome}" for outcome, num in counts.most_common()), highlight=False)
    if why:
        again = f"the same command with out={shown(result.folder)} retry=failed"
        text = f"  {DISTURBED}: {next(iter(why.values()))}; no answer counts such a cell. To measure again: {again}"
        console.print(text, style="yellow", highlight=False, markup=False, soft_wrap=True)
    say_skipped([record.reason for record in result.records if record.status == Status.skipped], console)
    for bad in [record for record in result.records if record.status in UNEXPECTED]:
        console.print(f"  {bad.label}: {bad.status}: {outcome(bad)}", style="red", highlight=False, markup=False)
    took_s = sum(record.wall_s for record in result.records)
    where = f"Records: {shown(result.folder)} ({duration(took_s)} of measuring)"
    console.print(where, highlight=False, markup=False, soft_wrap=True)
