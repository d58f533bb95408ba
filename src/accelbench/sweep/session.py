"""What programs that measure cells share: a session, with its folder, its plan and the measurement of one cell."""

import math
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryFile

from rich.console import Console
from rich.text import Text

from accelbench import lock
from accelbench.data.arrays import read_manifest
from accelbench.devices import energy_counters
from accelbench.devices.registry import look
from accelbench.errors import ChangedError, DataError, RefusedError, UserError, writing_errors
from accelbench.grid.fingerprint import fingerprint
from accelbench.grid.plan import REPEATED, Planned, Prepared, check_request, prepare, read_evidence, total
from accelbench.isolation.child import Outcome
from accelbench.isolation.hosts import Hosts
from accelbench.judging.verdict import ALLOWED, BUSY, is_allowed, judge, why_disturbed
from accelbench.presentation import counted, say
from accelbench.project import (
    MANIFEST,
    PLAN,
    REQUESTS,
    RUNS,
    SAFETENSORS,
    Workplace,
    resolved,
    shown,
    workplace,
)
from accelbench.schema import plan_file
from accelbench.schema.cell import MODULE, RANDOM, SERVING, Cell, DataSpec, Device, Status
from accelbench.schema.plan_file import WantedCell
from accelbench.schema.record import TRACKING, UNTRACKED, Record, read_all, write
from accelbench.schema.serialize import grouped, plain, without_secrets
from accelbench.schema.text import ending
from accelbench.settings.config import SweepOptions, check_local
from accelbench.settings.params import data_settings
from accelbench.sweep.prober import PROBING_ENGINE, Prober, Quiet
from accelbench.sweep.terminal import SweepProgress

MAX_OUTPUT = 20_000  # characters that are shown of the libraries' output for one cell, with -v


@dataclass
class Session:
    """One run of a program that measures cells. It measures and shows them within `measuring`."""

    options: SweepOptions
    console: Console
    hosts: Hosts  # they fork the cells; the caller ends them
    place: Workplace
    folder: Path  # folder of the records
    sweep_id: str  # kept in every record
    of_search: bool = False  # see `Record.of_search`
    earlier: Sequence[WantedCell] = ()  # cells of an earlier plan in the folder; the new plan keeps them
    since: Mapping[str, str] = field(default_factory=dict)  # cell id -> the earlier sweep that planned it
    ready: Prepared = field(init=False)  # the plan; `prepare` sets it

    @classmethod
    def begin(
        cls,
        cells: Sequence[Cell],
        options: SweepOptions,
        console: Console,
        hosts: Hosts,
        *,
        out: Path | None = None,
        kind: str | None = None,
    ) -> "Session":
        """Begins a sweep over `cells`. Reports mistakes before the sweep waits for the lock.

        `out` is the folder of a pipeline's suite. Without it, the records go to the folder that `out=` names, or to a
        new folder under runs/. The name of a new folder ends in `kind`.

        Raises UserError if the cells have several data sets, or if the folder of `out=` is not below runs/ or can't be
        written.
        """
        if options.is_auto:
            devices = dict.fromkeys(cell.device for cell in cells)
            say(console, f"device=auto: {', '.join(f'{device} ({look(device).name})' for device in devices)}")
        sweep_id = f"{datetime.now():%Y-%m-%d_%H-%M-%S}-{kind or options.suite}"
        place = workplace().with_data(options.data_root)
        folder = out or folder_under_runs(place, options.out or f"{RUNS}/{sweep_id}")
        check_request(cells)
        is_allowed()  # which refuses an unknown value of its variable
        check_writable(folder)
        return cls(options, console, hosts, place, folder, sweep_id)

    def say(self, line: str, style: str = "") -> None:
        say(self.console, line, style)

    def alone(self) -> AbstractContextManager[None]:
        """Holds the lock of this machine's measurements. If another sweep holds the lock, prints this and waits.

        Raises UserError if `options` ask for a cluster.
        """
        check_local(self.options.executor)
        return lock.hold_measuring(self.say, self.options.waits_s)

    def prepare(self, cells: Sequence[Cell]) -> Prepared:
        """Prepares the data set if it is missing, and plans the cells. The caller holds the lock. Raises UserError."""
        prepare_missing(self.place, cells[0].data, self.console)
        self.ready = ready = prepare(cells, self.place, self.earlier)
        if ready.data.stand_in:
            self.say(f"Measures a {ready.data.source}", "bold yellow")
        return ready

    def read_earlier(self, *, keeps: bool) -> None:
        """Reads the earlier plan in the folder. With `keeps`, its cells become part of the new plan.

        Renames an unreadable plan, which the new plan would overwrite. If there is no readable plan, uses the cells of
        the folder's records.
        """
        try:
            cells = plan_file.read_plan(self.folder).cells
        except RefusedError:
            raise
        except UserError as error:
            if (self.folder / PLAN).exists():
                self.say(f"{error}; kept as {set_aside(self.folder / PLAN)}")
            cells = plan_file.plan_of_records(self.folder).cells
        self.since = {wanted.cell.id: wanted.planned_in for wanted in cells if wanted.planned_in}
        self.earlier = cells if keeps else []

    def planned_in(self, cell: Cell) -> str:
        """Returns the id of the sweep that first planned the cell in this folder."""
        return self.since.get(cell.id, self.sweep_id)

    def read_records(self, paths: Iterable[Path]) -> list[Record]:
        """Returns the readable records. Renames each unreadable file, and prints its new name.

        Raises RefusedError if the system refuses to read a file now, and WriteError if a file can't be renamed.
        """
        readable = read_all(paths)
        records = list(readable)
        for path, error in readable.refused.items():
            if isinstance(error, RefusedError):
                raise error
            why = readable.reasons[path]
            self.say(f"{shown(path)}: {why}; kept as {set_aside(path)}, its cell is measured again", "yellow")
        return records

    def write_plan(self, cells: Sequence[WantedCell]) -> None:
        """Writes the plan with the earlier cells and `cells`. Raises WriteError."""
        options = self.options
        planned = []
        for item in plan_file.joined(self.earlier, cells):
            words = options.words_of.get(replace(item.cell, repeat=0).id, item.words)
            planned.append(replace(item, planned_in=self.planned_in(item.cell), words=words))
        plan = plan_file.PlanFile(
            suite=options.suite,
            title=options.title,
            study=options.study,
            profile=options.profile,
            cells=planned,
        )
        with writing_errors(f"out={shown(self.folder)}"):
            plan_file.write_plan(plan, self.folder)

    @contextmanager
    def measuring(self, todo: Sequence[Planned], *, is_brief: bool = False) -> Iterator[None]:
        """A context in which `measure` runs or skips the cells `todo`, and shows them."""
        runnable = [item.cell for item in todo if item.skip_reason is None]
        num_gpus = max((cell.devices for cell in runnable if cell.device == Device.gpu), default=0)
        self._idle_w = energy_counters.idle_w(energy_counters.counters(num_gpus))
        if self.options.verbose:  # also for the hosts' output at their end
            self.hosts.listener = lambda printed: self.say(
                ending(Text.from_ansi(printed).plain, MAX_OUTPUT), "dim"
            )
        self._quiet = Quiet(0.0 if is_allowed() else self.options.quiet_s, self.say)
        environment = fingerprint(PROBING_ENGINE)
        self._prober = Prober(
            self.hosts, self.place.cache, environment, self.say, runnable, quiet=self._quiet
        )
        if runnable and runnable[0].engine == PROBING_ENGINE:
            # The host imports the framework while the trackers are opened. An earlier import would disturb the idle
            # power, and the host of another engine would disturb the probe.
            self.hosts.start(runnable[0])
        self.evidence = read_evidence(self.place.root)  # how long cells take
        for cells in grouped(runnable, lambda cell: (cell.device, cell.python)).values():
            self._prober.ceilings(cells[0])
        if len(runnable) > 1 and not is_brief:
            num = len({cell.key_without(REPEATED) for cell in runnable})
            runs = f" ({len(runnable)} runs)" if num < len(runnable) else ""
            self.say(f"{counted(num, 'cell')}{runs} to measure: {total(runnable, self.evidence)}")
        plan = plan_file.joined(self.earlier, self.ready.planned)
        self._progress = SweepProgress(
            self.console,
            todo,
            self.evidence,
            plan=plan,
            earlier=read_all([self.folder / f"{wanted.record_name}.json" for wanted in plan]),
            is_brief=is_brief,
        )
        with self._progress:
            yield

    def measure(self, item: Planned, left_s: float = math.inf) -> Record:
        """Runs or skips the cell, judges it, writes its record, and shows the outcome.

        If other programs disturbed the cell, waits for a quiet machine, and runs the cell once more if `left_s` allows
        it. Raises ChangedError if the user's code or data changed before the cell.
        """
        if item.skip_reason is None and (change := self._changed(item)) is not None:
            raise ChangedError(f"{change} after the sweep began: run the sweep again")
        cell = item.cell
        beside = self.folder / item.record_name
        weights = beside.with_suffix(SAFETENSORS) if cell.save_weights else None
        requests = beside.with_suffix(REQUESTS) if cell.protocol in SERVING else None
        notes: list[str] = []
        while True:
            self._progress.start(item)
            started_at = datetime.now(UTC)
            start_s = time.perf_counter()
            if item.skip_reason is None:
                outcome = self.hosts.run(cell, self.ready.data_folder, weights, requests)
            else:
                outcome = Outcome(status=Status.skipped, reason=item.skip_reason)
            wall_s = time.perf_counter() - start_s
            record = self._judged(item, outcome, started_at, wall_s, notes)
            why = why_disturbed(record)
            if why is None or notes:
                break
            self._progress.describe("waiting for a quiet machine")
            if not self._quiet.comes(f"{item.label} was disturbed ({why})", left_s - 2 * wall_s):
                break
            notes = [f"measured again: the first time, {why}"]
        served = record.measurement.serving if record.measurement else None
        if requests is not None and (served is None or served.requests_digest is None):
            requests.unlink(missing_ok=True)  # of the run before, or of an earlier record of this name
        write(record, self.folder)
        self._progress.finish(record)
        return record

    def _judged(
        self, item: Planned, outcome: Outcome, started_at: datetime, wall_s: float, notes: Sequence[str]
    ) -> Record:
        """Judges the outcome of a cell. Adds `notes` to its measurement."""
        cell = item.cell
        status = outcome.status
        reason = outcome.reason
        measured = without_secrets(outcome.measurement)
        ceilings = self._prober.after(cell, measured, item.label)
        if measured is not None:
            reason = judge(cell, measured, ceilings)
            if reason is None and (change := self._changed(item)) is not None:
                reason = f"{change} while it was measured: run the sweep again"
            status = Status.ok if reason is None else Status.invalid
            measured = replace(measured, notes=[*measured.notes, *notes])
            if measured.target is not None:
                measured = replace(
                    measured, target=replace(measured.target, planned_in=self.planned_in(cell))
                )
        environment = self.ready.environment(cell)
        environment |= {"probe_code": self._prober.environment["code"], "idle_w": self._idle_w}
        environment["ceilings"] = plain(ceilings)
        if self.options.tracking == UNTRACKED:
            environment[TRACKING] = UNTRACKED
        if is_allowed():
            environment[BUSY] = ALLOWED
        return Record(
            status=status,
            reason=reason,
            error=outcome.error,
            user_error=outcome.user_error,
            measurement=measured,
            system=outcome.system,
            cell=cell,
            label=item.label,
            identity=item.identity,
            started_at=started_at.isoformat(timespec="milliseconds"),
            wall_s=wall_s,
            environment=without_secrets(environment),
            sweep_id=self.sweep_id,
            of_search=self.of_search,
            data=without_secrets(self.ready.data),
        )

    def _changed(self, item: Planned) -> str | None:
        """Returns what the user changed after the plan was made, such as `the data set was prepared anew`, or None."""
        if self.ready.data.name != MODULE:  # data from a module have no manifest
            try:
                if read_manifest(self.ready.data_folder) != self.ready.data:
                    return "the data set was prepared anew"
            except DataError as error:
                return f"the data set was changed ({error})"
        return (
            "your code or weights were changed" if self.ready.is_changed(item.cell, item.identity) else None
        )


def set_aside(path: Path) -> str:
    """Renames the file at `path`, and returns its new name. Raises WriteError."""
    new = path.with_name(f"{path.name}.unreadable")
    with writing_errors(shown(path)):
        path.replace(new)
    return new.name


def folder_under_runs(place: Workplace, out: str) -> Path:
    """Returns the folder that `out=` names. Raises UserError if it is not below runs/."""
    folder = resolved(place.root / out)
    if resolved(place.root / RUNS) not in folder.parents:
        raise UserError(f"out={out}: should be a folder under runs/, such as runs/mine")
    return folder


def check_writable(folder: Path) -> None:
    """Raises WriteError if the folder can't be written or made."""
    nearest = next(parent for parent in (folder, *folder.parents) if os.path.lexists(parent))
    with writing_errors(f"out={shown(folder)}"), TemporaryFile(dir=nearest):
        pass


def prepare_missing(place: Workplace, data: DataSpec, console: Console) -> None:
    """Prepares a data set, unless it is ready to use. Prepares the user's own data again if they have changed.

    Raises UserError if params.yaml does not name the data set. Raises DataError if the data set can't be obtained.
    """
    is_there = not data.path and (place.data / data.name / MANIFEST).exists()
    if is_there or data.name in (MODULE, RANDOM):
        return
    from accelbench.data import prepare  # it takes long to import

    if data.path and prepare.is_own_prepared(place, data):
        return
    settings = {} if data.path else data_settings(place.project, data.name)
    say(console, f"Preparing {shown(place.data / data.name)}, once.")
    if data.path:
        prepare.prepare_own(place, data)
    else:
        prepare.prepare(place, data.name, settings)
