"""The state that the parts of a sweep share, and the preparation of cells for every program that measures them."""

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import count
from pathlib import Path
from tempfile import TemporaryFile

from rich.console import Console

from accelbench import lock
from accelbench.devices.registry import look
from accelbench.errors import RefusedError, UserError, writing_errors
from accelbench.grid.plan import Prepared, check_request, prepare
from accelbench.isolation.hosts import Hosts
from accelbench.judging.verdict import is_allowed
from accelbench.presentation import say
from accelbench.project import MANIFEST, PLAN, RUNS, Workplace, resolved, shown, workplace
from accelbench.schema import plan_file
from accelbench.schema.cell import Cell
from accelbench.schema.plan_file import WantedCell
from accelbench.schema.record import Record, listed, read_all
from accelbench.schema.vocab import MODULE, RANDOM, UNEXPECTED, Protocol, Status
from accelbench.schema.workload import DataSpec
from accelbench.settings.config import SweepOptions
from accelbench.settings.params import data_settings


@dataclass
class SweepContext:
    """One run of a program that measures cells."""

    options: SweepOptions
    console: Console
    hosts: Hosts  # they fork the cells; the caller ends them
    place: Workplace
    folder: Path  # folder of the records
    sweep_id: str  # kept in every record
    of_search: bool = False  # see `Record.of_search`
    earlier: Sequence[WantedCell] = ()  # cells of an earlier plan in the folder; the new plan keeps them
    since: Mapping[str, str] = field(default_factory=dict)  # cell id -> the earlier sweep that planned it

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
    ) -> "SweepContext":
        """Makes the context of a sweep over `cells`. Reports mistakes before the sweep waits for the lock.

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
        """Holds the lock of this machine's measurements. If another sweep holds the lock, prints this and waits."""
        return lock.hold_measuring(self.say, self.options.waits_s)

    def prepare(self, cells: Sequence[Cell]) -> Prepared:
        """Prepares the data set if it is missing, and plans the cells. The caller holds the lock. Raises UserError."""
        prepare_missing(self.place, cells[0].data, self.console)
        ready = prepare(cells, self.place, self.earlier)
        if ready.data.stand_in:
            self.say(f"Not {ready.data.name}: {ready.data.source}", "bold yellow")
        return ready

    def read_earlier(self, *, keeps: bool) -> None:
        """Reads the earlier plan in the folder. With `keeps`, its cells become part of the new plan."""
        cells = plan_file.cells_in(self.folder)
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
        read = list(readable)
        for error in readable.refused.values():
            if isinstance(error, RefusedError):
                raise error
        lines = []
        for path, why in readable.reasons.items():
            lines.append(f"{shown(path)}: {why}; kept as {set_aside(path).name}, its cell is measured again")
        for line in listed(lines):
            self.say(line, "yellow")
        return read

    def set_aside_plan(self) -> None:
        """Renames an unreadable plan, which the new plan would overwrite."""
        try:
            plan_file.read_plan(self.folder)
        except RefusedError:
            raise
        except UserError as error:
            if os.path.lexists(self.folder / PLAN):
                self.say(f"{error}; kept as {set_aside(self.folder / PLAN).name}")

    def write_plan(self, cells: Sequence[WantedCell]) -> None:
        """Writes the plan with the earlier cells and `cells`. Raises WriteError."""
        options = self.options
        wanted = plan_file.joined(self.earlier, cells)
        wanted = [
            replace(item, planned_in=self.planned_in(item.cell)) if item.cell.protocol == Protocol.target else item
            for item in wanted
        ]
        for at, item in enumerate(wanted):
            words = options.words_of.get(replace(item.cell, repeat=0).id, item.words)
            wanted[at] = replace(item, words=words)
        plan = plan_file.PlanFile(
            suite=options.suite, title=options.title, study=options.study, profile=options.profile, cells=wanted
        )
        with writing_errors(f"out={shown(self.folder)}"):
            plan_file.write_plan(plan, self.folder)


@dataclass
class SweepResult:
    """How a sweep ended."""

    folder: Path  # of the records
    records: list[Record] = field(default_factory=list)  # of planned cells, from this sweep or an earlier one
    sweep_id: str = ""  # the sweep's id in its records

    @property
    def num_unexpected(self) -> int:
        return sum(record.status in UNEXPECTED for record in self.records)

    def check_request(self, *, is_shown: bool = False) -> None:
        """Raises a UserError if all cells failed because of a user's mistake. Ignores skipped cells.

        The message has the reasons. If `is_shown` and there are several cells, it refers to the cells' lines, which
        have the reasons.
        """
        tried = [record for record in self.records if record.status != Status.skipped]
        if tried and all(record.user_error for record in tried):
            if is_shown and len(tried) > 1:
                raise UserError(f"none of {len(tried)} cells could be measured, for the reasons above")
            raise UserError("; ".join(dict.fromkeys(str(record.reason) for record in tried)))


def set_aside(path: Path) -> Path:
    """Renames the file at `path` to a free name, and returns the new path. Raises WriteError."""
    new = path.with_name(f"{path.name}.unreadable")
    for number in count(2):
        if not os.path.lexists(new):
            break
        new = path.with_name(f"{path.name}.unreadable-{number}")
    with writing_errors(shown(path)):
        path.rename(new)
    return new


def folder_under_runs(place: Workplace, out: str) -> Path:
    """Returns the folder that `out=` names. Raises UserError if it is not below runs/, or can't be made there."""
    runs = place.root / RUNS
    folder = resolved(place.root / out)
    if os.path.lexists(runs) and not runs.is_dir():
        raise UserError(f"{shown(runs)}: is a file, but should be the folder of the records: move the file")
    if resolved(runs) not in folder.parents:
        raise UserError(f"out={out}: should be a folder under runs/, such as runs/mine")
    with suppress(FileNotFoundError):
        folder.stat()  # fails for links in a circle, or a name that is too long
    return folder


def check_writable(folder: Path) -> None:
    """Raises WriteError if the folder can't be written or made."""
    nearest = next(parent for parent in (folder, *folder.parents) if parent.is_dir())
    with writing_errors(f"out={shown(folder)}"), TemporaryFile(dir=nearest):
        pass


def is_prepared(place: Workplace, data: DataSpec) -> bool:
    """Is true if a data set is ready to use. The user's own data must be prepared again if they have changed."""
    if data.name in (MODULE, RANDOM):
        return True
    if not data.path:
        return (place.data / data.name / MANIFEST).exists()
    from accelbench.data import prepare  # it takes long to import

    return prepare.is_own_prepared(place, data)


def prepare_missing(place: Workplace, data: DataSpec, console: Console) -> None:
    """Prepares a data set, unless `is_prepared`.

    Raises UserError if params.yaml does not name the data set. Raises DataError if the data set can't be obtained.
    """
    if is_prepared(place, data):
        return
    from accelbench.data import prepare  # it takes long to import

    folder = place.data / data.name
    settings = {} if data.path else data_settings(place.project, data.name)
    say(console, f"Preparing {shown(folder)}, once.")
    if data.path:
        prepare.prepare_own(place, data)
    else:
        prepare.prepare(place, data.name, settings)
