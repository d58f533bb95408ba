"""The sweep: cells -> records, one after another, whatever happens to each."""

import dataclasses
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from rich.console import Console
from rich.text import Text

from accelbench import lock
from accelbench.data.manifest import read_manifest
from accelbench.devices import energy_counters
from accelbench.errors import UserError
from accelbench.grid.plan import Planned
from accelbench.grid.prepare import data_of, prepare
from accelbench.isolation.hosts import Hosts
from accelbench.presentation import duration
from accelbench.project import project_root, store_root
from accelbench.schema import record
from accelbench.schema.cell import Cell
from accelbench.schema.plan_file import PlanFile, WantedCell, write_plan
from accelbench.schema.record import Record
from accelbench.schema.vocab import RETRIED, UNEXPECTED, Device, Status
from accelbench.settings.config import Retry, SweepOptions
from accelbench.sinks.base import Sink
from accelbench.sinks.registry import make_sinks
from accelbench.sweep.prober import Prober
from accelbench.sweep.progress import SweepProgress, outcome
from accelbench.sweep.run_cell import run_cell

CHANGED = "the data set was prepared anew while it was measured: run the sweep again"


@dataclass
class SweepResult:
    """How a sweep ended: its folder, and each planned cell's record, those of earlier runs included.

    `links` are of a sweep of one cell that was run: tracker -> where its run is, for people.
    """

    folder: Path
    records: list[Record] = field(default_factory=list)
    links: dict[str, str] = field(default_factory=dict)

    @property
    def num_unexpected(self) -> int:
        """Cells that ended as nobody asked for."""
        return sum(record.status in UNEXPECTED for record in self.records)


class UnexpectedOutcomeError(Exception):
    """A sweep ended, every cell has its record, and some failed."""


def run(cells: Sequence[Cell], options: SweepOptions, console: Console, out: Path | None = None) -> SweepResult:
    """Runs every cell that has no record yet; each gets one, at once and whatever happens.

    Args:
        cells: the grid.
        options: what holds for all of it.
        console: where progress is shown.
        out: the folder for the records; None for the user's `out=`, or a new one under runs/.

    Raises:
        UserError: nothing could be started, for a reason that the user can mend.
    """
    sweep_id = f"{datetime.now():%Y-%m-%d_%H-%M-%S}-{options.suite}"
    folder = out or _own_folder(project_root(), options.out or f"runs/{sweep_id}")
    result, printed = SweepResult(folder), list[str]()
    data_of(cells)  # a mistake is told at once, not after a wait
    with ExitStack() as stack:
        stack.enter_context(lock.hold(lock.measuring_lock(), "another measurement", console.print))
        ready = prepare(cells)  # the data may have changed in the wait
        if ready.data.stand_in:
            console.print(
                f"[bold yellow]Not {ready.data.name}:[/] {ready.data.source}",
                highlight=False,
                soft_wrap=not console.is_terminal,
            )
        try:
            write_plan(_plan_file(ready.planned, options), folder)
        except OSError as error:
            raise UserError(f"out={shown(folder)}: not writable ({error.strerror})") from error
        todo = []
        for item, estimate in zip(ready.planned, ready.estimates, strict=True):
            existing = _existing(folder, item, options.retry)
            if existing is None:
                todo.append((item, estimate))
            else:
                result.records.append(existing)
        if result.records:
            console.print(f"{len(result.records)} of {len(ready.planned)} cells have their record already.")
        if todo:
            on_gpus = [item.cell for item, _ in todo if item.cell.device == Device.gpu and item.skip_reason is None]
            num_gpus = max((cell.devices for cell in on_gpus), default=0)
            environment = {**ready.environment, "idle_w": energy_counters.idle_w(energy_counters.counters(num_gpus))}
            hosts = stack.enter_context(Hosts())
            if options.verbose:
                hosts.listener = printed.append
            prober = Prober(hosts, store_root(ready.root), environment, console.print)
            first = next((item.cell for item, _ in todo if item.skip_reason is None), None)
            if first is not None and prober.knows(first):
                hosts.start(first)  # imports the framework while MLflow is; not beside the idle power or a probe
            sinks = [stack.enter_context(s) for s in make_sinks(options.tracking, ready.root)]
            show = stack.enter_context(SweepProgress(console, *map(list, zip(*todo, strict=True))))
            for item, _ in todo:
                show.start(item)
                if item.skip_reason is None:
                    prober.ceilings(item.cell)
                done = run_cell(item, hosts, ready.data, ready.data_folder, environment, sweep_id)
                record.write(done, folder)  # first: what follows may probe the device again
                done = prober.judged(done)
                if read_manifest(ready.data_folder) != ready.data:
                    done = dataclasses.replace(done, status=Status.invalid, reason=CHANGED)
                record.write(done, folder)
                _show_printed(printed, console)
                show.finish(done)
                for sink in sinks:
                    sink.deliver(done)
                result.records.append(done)
                if len(ready.planned) == 1:
                    links = {sink.name: sink.link(done) for sink in sinks}
                    result.links = {name: link for name, link in links.items() if link is not None}
    _show_printed(printed, console)
    conclude(result, sinks if todo else [], console)
    return result


def _show_printed(printed: list[str], console: Console) -> None:
    """Shows what libraries printed, and forgets it: only now, since every record is written first."""
    while printed:
        console.print(Text.from_ansi(printed.pop(0), style="dim"), soft_wrap=True)


def _plan_file(planned: Sequence[Planned], options: SweepOptions) -> PlanFile:
    return PlanFile(
        suite=options.suite,
        title=options.title,
        study=options.study,
        profile=options.profile,
        cells=[WantedCell(item.cell, item.record_name) for item in planned],
    )


def _own_folder(root: Path, out: str) -> Path:
    folder = (root / out).resolve()
    if (root / "runs").resolve() not in folder.parents:
        raise UserError(f"out={out}: should be a folder under runs/, such as runs/mine")
    return folder


def _existing(folder: Path, item: Planned, retry: Retry) -> Record | None:
    """The cell's record from an earlier run, unless there is none or it is to be tried again."""
    path = folder / f"{item.record_name}.json"
    if not path.exists():
        return None
    try:
        existing = record.read(path)
    except UserError:  # of an older schema: measured again
        return None
    was_skipped, is_skipped = existing.status == Status.skipped, item.skip_reason is not None
    if was_skipped != is_skipped:  # what is supported has changed, though nothing that a number depends on
        return None
    return None if retry == Retry.failed and existing.status in RETRIED else existing


def conclude(result: SweepResult, sinks: Sequence[Sink], console: Console) -> None:
    """Says how the sweep ended, what was skipped and why, and where everything is."""
    counts = Counter(record.status for record in result.records)
    console.print(", ".join(f"{num} {status}" for status, num in counts.most_common()), highlight=False)
    reasons = Counter(r.reason for r in result.records if r.status == Status.skipped)
    for reason, num in reasons.most_common():
        console.print(f"  skipped {num}: {reason}", style="dim", highlight=False, markup=False)
    for bad in [r for r in result.records if r.status in UNEXPECTED]:
        console.print(f"  {bad.cell.label}: {bad.status}: {outcome(bad)}", style="red", highlight=False, markup=False)
    for sink in sinks:
        if sink.undelivered:
            console.print(
                f"{sink.undelivered} runs did not reach {sink.name} ({sink.problem}): `accelbench sync` delivers them.",
                style="yellow",
                markup=False,
            )
    took = sum(record.wall_s for record in result.records)
    console.print(f"Records: {shown(result.folder)} ({duration(took)} of measuring)", highlight=False, soft_wrap=True)


def shown(folder: Path) -> str:
    """`folder`, from the current one where it is below it."""
    return str(folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder)
