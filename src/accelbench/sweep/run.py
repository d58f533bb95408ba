"""The sweep: cells -> records, one cell after another, a record for each whatever happens."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from accelbench import lock
from accelbench.errors import UserError
from accelbench.grid.plan import Planned
from accelbench.grid.prepare import Prepared, data_of, prepare
from accelbench.presentation import duration
from accelbench.project import project_root
from accelbench.schema import plan_file
from accelbench.schema import record as records
from accelbench.schema.cell import Cell
from accelbench.schema.plan_file import PlanFile, WantedCell, write_plan
from accelbench.schema.record import Record
from accelbench.schema.vocab import RETRIED, UNEXPECTED, Status
from accelbench.settings.config import Retry, SweepOptions
from accelbench.sinks.base import Sink
from accelbench.sweep.progress import outcome
from accelbench.sweep.session import Session


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


def run(cells: Sequence[Cell], options: SweepOptions, console: Console, out: Path | None = None) -> SweepResult:
    """Measures every cell that has no record yet, and writes a record for each, whatever happens.

    Args:
        cells: the grid.
        options: settings of the whole sweep.
        console: where progress is shown.
        out: the folder of a pipeline's suite, which wants these cells and no others; None for the user's `out=`, whose
            plan gets these cells in addition to its own, or for a new folder under runs/.

    Raises:
        UserError: the sweep could not start, for a reason that the user can mend.
    """
    sweep_id = f"{datetime.now():%Y-%m-%d_%H-%M-%S}-{options.suite}"
    folder = out or _folder_under_runs(project_root(), options.out or f"runs/{sweep_id}")
    data_of(cells)  # reports a mistake now, not after waiting for the lock
    with lock.hold_measuring(console.print):
        # After the wait, in which the data and the plan may have changed.
        earlier = plan_file.cells_in(folder) if out is None else []
        ready = prepare(cells, earlier)
        _announce_stand_in(ready, console)
        _write_plan(ready, earlier, options, folder)
        done, todo = known(ready, folder, options.retry)
        if done:
            console.print(f"{len(done)} of {len(ready.planned)} cells have their record already.")
        with Session(ready, todo, folder, options, console, sweep_id) as session:
            for item in todo:
                record = session.measure(item)
                record = session.judge(record)
                session.publish(record)
                done.append(record)
    result = SweepResult(folder, done, session.links)
    conclude(result, session.sinks, console)
    return result


def known(ready: Prepared, folder: Path, retry: Retry) -> tuple[list[Record], list[Planned]]:
    """The records that earlier sweeps left in `folder` for planned cells, and the cells still to measure."""
    done, todo = [], []
    for item in ready.planned:
        existing = _existing(folder, item, retry)
        if existing is None:
            todo.append(item)
        else:
            done.append(existing)
    return done, todo


def _existing(folder: Path, item: Planned, retry: Retry) -> Record | None:
    """The cell's record from an earlier sweep; None if the cell has none or is to be measured again."""
    path = folder / f"{item.record_name}.json"
    if not path.exists():
        return None
    try:
        existing = records.read(path)
    except UserError:  # damaged: measured again, which replaces it
        return None
    was_skipped, is_skipped = existing.status == Status.skipped, item.skip_reason is not None
    if was_skipped != is_skipped:  # what this machine supports has changed, and no part of the identity did
        return None
    return None if retry == Retry.failed and existing.status in RETRIED else existing


def _announce_stand_in(ready: Prepared, console: Console) -> None:
    if ready.data.stand_in:
        console.print(
            f"[bold yellow]Not {escape(ready.data.name)}:[/] {escape(ready.data.source)}",
            highlight=False,
            soft_wrap=not console.is_terminal,
        )


def _write_plan(ready: Prepared, earlier: Sequence[WantedCell], options: SweepOptions, folder: Path) -> None:
    new = [WantedCell(item.cell, item.record_name, item.label) for item in ready.planned]
    plan = PlanFile(
        suite=options.suite,
        title=options.title,
        study=options.study,
        profile=options.profile,
        cells=plan_file.joined(earlier, new),
    )
    try:
        write_plan(plan, folder)
    except OSError as error:
        raise UserError(f"out={shown(folder)}: not writable ({error.strerror})") from error


def _folder_under_runs(root: Path, out: str) -> Path:
    folder = (root / out).resolve()
    if (root / "runs").resolve() not in folder.parents:
        raise UserError(f"out={out}: should be a folder under runs/, such as runs/mine")
    return folder


def conclude(result: SweepResult, sinks: Sequence[Sink], console: Console) -> None:
    """Prints how the cells ended, why cells were skipped, what a tracker missed, and where the records are."""
    counts = Counter(record.status for record in result.records)
    console.print(", ".join(f"{num} {status}" for status, num in counts.most_common()), highlight=False)
    reasons = Counter(record.reason for record in result.records if record.status == Status.skipped)
    for reason, num in reasons.most_common():
        console.print(f"  skipped {num}: {reason}", style="dim", highlight=False, markup=False)
    for bad in [record for record in result.records if record.status in UNEXPECTED]:
        console.print(f"  {bad.label}: {bad.status}: {outcome(bad)}", style="red", highlight=False, markup=False)
    for sink in sinks:
        if sink.undelivered:
            console.print(
                f"{sink.undelivered} runs did not reach {sink.name} ({sink.problem}): `accelbench sync` delivers them.",
                style="yellow",
                markup=False,
            )
    took_s = sum(record.wall_s for record in result.records)
    where = f"Records: {shown(result.folder)} ({duration(took_s)} of measuring)"
    console.print(where, highlight=False, markup=False, soft_wrap=True)


def shown(folder: Path) -> str:
    """`folder`, relative to the current folder if it is below it."""
    return str(folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder)
