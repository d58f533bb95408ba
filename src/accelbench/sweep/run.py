"""The sweep: cells -> records, one cell after another, a record for each whatever happens."""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from accelbench import lock
from accelbench.errors import REFUSED, RefusedError, UserError, WriteError
from accelbench.grid.plan import Planned
from accelbench.grid.prepare import Prepared, check_request, prepare
from accelbench.isolation.hosts import Hosts
from accelbench.judging import disturbed
from accelbench.judging.disturbed import DISTURBED, is_retried
from accelbench.presentation import duration
from accelbench.project import PLAN, RUNS, Workplace, resolved, shown, workplace
from accelbench.schema import plan_file
from accelbench.schema import record as records
from accelbench.schema.cell import Cell
from accelbench.schema.plan_file import PlanFile, WantedCell, write_plan
from accelbench.schema.record import Record
from accelbench.schema.vocab import UNEXPECTED, Status
from accelbench.settings.config import Retry, SweepOptions
from accelbench.sweep.delivery import Delivery
from accelbench.sweep.kept import KeptFiles, set_aside
from accelbench.sweep.missing_data import prepare_missing
from accelbench.sweep.progress import outcome
from accelbench.sweep.session import NOT_JUDGED, Session


@dataclass
class SweepResult:
    """How a sweep ended.

    Attributes:
        folder: where the records are.
        records: the record of each planned cell, measured in this sweep or in an earlier one.
        links: tracker -> where it shows the run. Only for a sweep of one cell, measured in this sweep.
    """

    folder: Path
    records: list[Record] = field(default_factory=list)
    links: dict[str, str] = field(default_factory=dict)

    @property
    def num_unexpected(self) -> int:
        """Number of cells that failed unexpectedly."""
        return sum(record.status in UNEXPECTED for record in self.records)

    def check_request(self) -> None:
        """Raises a UserError if a mistake in the user's request made every cell fail that was not skipped."""
        tried = [record for record in self.records if record.status != Status.skipped]
        if tried and all(record.user_error for record in tried):
            raise UserError("; ".join(dict.fromkeys(str(record.reason) for record in tried)))


def run(
    cells: Sequence[Cell],
    options: SweepOptions,
    console: Console,
    out: Path | None = None,
    *,
    hosts: Hosts,
    show: Callable[[SweepResult], None] | None = None,
) -> SweepResult:
    """Measures every cell that has no record yet, and writes a record for each, whatever happens.

    Trackers get the record of one of several cells after the timed part of a later one; a single record after `show`.

    Args:
        cells: the grid.
        options: settings of the whole sweep.
        console: where progress is shown.
        out: the folder of a pipeline's suite, which wants these cells and no others; None for the user's `out=`, whose
            plan gets these cells in addition to its own, or for a new folder under runs/.
        hosts: from which the cells are forked. Those that the cells need are started; the caller ends them.
        show: shows the result once every cell has its record; None: as `conclude` does.

    Raises:
        UserError: the sweep could not start, or not go on, for a reason that the user can mend.
    """
    sweep_id = f"{datetime.now():%Y-%m-%d_%H-%M-%S}-{options.suite}"
    place = workplace().with_data(options.data_root)
    folder = out or folder_under_runs(place, options.out or f"{RUNS}/{sweep_id}")
    check_request(cells)  # reports a mistake now, not after waiting for the lock
    with Delivery(options.tracking, place.store) as delivery:
        with lock.hold_measuring(partial(wait, console, hosts)):
            prepare_missing(place, cells[0].data, console)
            # After the wait, in which the data and the plan may have changed.
            earlier = plan_file.cells_in(folder) if out is None else []
            ready = prepare(cells, place, earlier)
            announce_stand_in(ready, console)
            with telling_where_it_stopped(ready, folder):
                kept = KeptFiles()
                set_aside_plan(folder, console)
                _write_plan(ready, earlier, options, folder)
                kept.note(folder / PLAN, lambda: _write_plan(ready, earlier, options, folder))
                done, todo = known(ready, folder, options.retry, console)
                hosts.meanwhile = delivery.deliver
                session = Session(ready, todo, folder, options, console, sweep_id, hosts)
                result = SweepResult(folder, _measure(session, done, kept, delivery))
        (show or partial(conclude, console=console))(result)
        deliver_rest(delivery, result.records, console)
        if todo and len(ready.planned) == 1:
            result.links = delivery.links(result.records[0])
    return result


def _measure(session: Session, done: Sequence[Record], kept: KeptFiles, delivery: Delivery) -> list[Record]:
    """Measures the cells of `session`; returns their records after those that were `done` already."""
    console, measured = session.console, list(done)
    for record in done:
        kept.note_record(record, session.folder)
    if done:
        console.print(f"{len(done)} of {len(session.ready.planned)} cells have their record already.")
    try:
        with session:
            if sum(item.skip_reason is None for item in session.todo) > 1:
                delivery.open()  # while the host imports its framework
            for item in session.todo:
                record = session.judge(session.measure(item))
                kept.note_record(record, session.folder)
                session.show(record)
                delivery.add(record)
                measured.append(record)
    finally:  # an interrupted sweep keeps its records too
        say_restored(kept.restore(), console)
    return measured


def wait(console: Console, hosts: Hosts, message: str) -> None:
    """Before waiting for another sweep: ends the hosts that were started early, whose imports would disturb it."""
    hosts.end_starting(needed=())
    console.print(message, markup=False, soft_wrap=True)


def deliver_rest(delivery: Delivery, found: Sequence[Record], console: Console) -> None:
    """Delivers what the trackers have not got yet, and says what did not reach them."""
    with console.status("Delivering to the tracker ...") if console.is_terminal else nullcontext():
        delivery.finish()
        delivery.relate(found)
    for line in delivery.losses():
        console.print(line, style="yellow", markup=False)


@contextmanager
def telling_where_it_stopped(ready: Prepared, folder: Path) -> Iterator[None]:
    """If a file can't be written, or the system refuses another call, says how many cells have their record."""
    try:
        yield
    except (WriteError, RefusedError, OSError) as error:
        if isinstance(error, OSError) and error.errno not in REFUSED:
            raise
        problem = RefusedError(error) if isinstance(error, OSError) else error
        num = sum(os.path.lexists(folder / f"{item.record_name}.json") for item in ready.planned)
        left = f"{num} of {len(ready.planned)} cells have their record, run again to go on"
        raise UserError(f"{problem}; {left}") from error


def set_aside_plan(folder: Path, console: Console) -> None:
    """Keeps what is in the place of the plan and is no readable plan: the new plan would overwrite it."""
    try:
        plan_file.read_plan(folder)
    except RefusedError:
        raise
    except UserError as error:
        if os.path.lexists(folder / PLAN):
            console.print(f"{error}; kept as {set_aside(folder / PLAN).name}", markup=False, soft_wrap=True)


def known(ready: Prepared, folder: Path, retry: Retry, console: Console) -> tuple[list[Record], list[Planned]]:
    """The records that earlier sweeps left in `folder` for planned cells, and the cells still to measure.

    A record that can't be read is set aside, and its cell measured again.
    """
    readable = records.read_all([folder / f"{item.record_name}.json" for item in ready.planned])
    found = {path.stem: record for path, record in readable.by_path()}
    for error in readable.refused.values():
        if isinstance(error, RefusedError):  # the record may be whole
            raise error
    lines = [
        f"{shown(path)}: {reason}; kept as {set_aside(path).name}, its cell is measured again"
        for path, reason in readable.reasons.items()
    ]
    for line in records.listed(lines):
        console.print(line, style="yellow", markup=False, soft_wrap=True)
    done, todo = [], []
    for item in ready.planned:
        existing = found.get(item.record_name)
        if existing is not None and _counts(existing, item, retry):
            done.append(existing)
        else:
            todo.append(item)
    return done, todo


def _counts(existing: Record, item: Planned, retry: Retry) -> bool:
    """Whether the cell's record from an earlier sweep stands; else the cell is measured again."""
    if existing.reason == NOT_JUDGED:
        return False
    was_skipped, is_skipped = existing.status == Status.skipped, item.skip_reason is not None
    if was_skipped != is_skipped:  # what this machine supports has changed, and no part of the identity did
        return False
    return retry != Retry.failed or not is_retried(existing)


def say_restored(paths: Sequence[Path], console: Console) -> None:
    """Says which files had to be written again."""
    if paths:
        console.print(
            "\n  ".join(
                [
                    f"{len(paths)} files were deleted or changed while the sweep ran, perhaps by the code of a cell, "
                    "and have been written again:",
                    *records.listed([shown(path) for path in paths]),
                ]
            ),
            style="yellow",
            markup=False,
            soft_wrap=True,
        )


def announce_stand_in(ready: Prepared, console: Console) -> None:
    """Says so if the data set is only a stand-in for the one that it is named after."""
    if ready.data.stand_in:
        console.print(
            f"[bold yellow]Not {escape(ready.data.name)}:[/] {escape(ready.data.source)}",
            highlight=False,
            soft_wrap=not console.is_terminal,
        )


def _write_plan(ready: Prepared, earlier: Sequence[WantedCell], options: SweepOptions, folder: Path) -> None:
    new = [WantedCell(item.cell, item.record_name, item.label) for item in ready.planned]
    write_wanted(plan_file.joined(earlier, new), options, folder)


def write_wanted(cells: list[WantedCell], options: SweepOptions, folder: Path) -> None:
    """Writes the plan of a sweep that wants `cells`.

    Raises:
        WriteError: the file can't be written.
    """
    plan = PlanFile(
        suite=options.suite,
        title=options.title,
        study=options.study,
        profile=options.profile,
        cells=cells,
    )
    try:
        write_plan(plan, folder)
    except OSError as error:
        raise WriteError(f"out={shown(folder)}", error) from error


def folder_under_runs(place: Workplace, out: str) -> Path:
    """The folder that the user names with `out=`.

    Raises:
        UserError: it is not below runs/.
    """
    runs, folder = place.root / RUNS, resolved(place.root / out)
    if os.path.lexists(runs) and not runs.is_dir():
        raise UserError(f"{shown(runs)}: a file is where the folder of the records should be: move it")
    if resolved(runs) not in folder.parents:
        raise UserError(f"out={out}: should be a folder under runs/, such as runs/mine")
    return folder


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
        console.print(
            f"  {DISTURBED}: {next(iter(why.values()))}; no answer counts such a cell. To measure again: {again}",
            style="yellow",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
    say_skipped([record.reason for record in result.records if record.status == Status.skipped], console)
    for bad in [record for record in result.records if record.status in UNEXPECTED]:
        console.print(f"  {bad.label}: {bad.status}: {outcome(bad)}", style="red", highlight=False, markup=False)
    took_s = sum(record.wall_s for record in result.records)
    where = f"Records: {shown(result.folder)} ({duration(took_s)} of measuring)"
    console.print(where, highlight=False, markup=False, soft_wrap=True)
