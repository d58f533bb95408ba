"""What a sweep planned and what became of it, read from its folder."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from accelbench.answers.cells import MeasuredCell, cells_of
from accelbench.answers.process import Process, device_key
from accelbench.errors import RefusedError, UserError
from accelbench.judging.costs import Cost
from accelbench.project import CONFIRMED, PLAN, RECORDS
from accelbench.report import read_notes
from accelbench.schema import plan_file
from accelbench.schema.ceilings import Ceilings, ceilings_in
from accelbench.schema.race_file import RaceFile, read_race
from accelbench.schema.record import Record, Row, listed
from accelbench.schema.record import read_all as read_records
from accelbench.schema.text import clean
from accelbench.schema.vocab import Device

ReportedCell = Process


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """One suite's plan and its records.

    Attributes:
        folder: the folder's name, unique among the sweeps of a report.
        study: the published study that the suite repeats, such as `001`; None for no study.
        profile: which of params.yaml's profiles it was planned with.
        cells: in the plan's order, each with its published speed.
        processes: the planned ones in the plan's order, and those that confirm an answer about one of these cells.
        race: how the search went that measured them; None if it was none.
        notes: sentences about records that can't be read or that the plan does not name, and about a plan that is
            missing or can't be read.
    """

    folder: str
    suite: str
    title: str
    study: str | None = None
    profile: str | None = None
    cells: list[MeasuredCell] = field(default_factory=list)
    processes: list[Process] = field(default_factory=list)
    race: RaceFile | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def ok_rows(self) -> list[Row]:
        """The rows of the ok cells."""
        return [reported.row for reported in self.cells if reported.is_ok]

    @property
    def records(self) -> list[Record]:
        """The records of the planned processes that have run."""
        return [each.record for each in self.planned if each.record is not None]

    @property
    def planned(self) -> list[Process]:
        """The planned processes."""
        return [each for each in self.processes if not each.is_confirming]


def with_cells(sweeps: Sequence[Sweep]) -> list[Sweep]:
    """The same sweeps with the cells of their processes: processes of one cell may be of several sweeps."""
    named = [[replace(each, folder=sweep.folder) for each in sweep.processes] for sweep in sweeps]
    found: dict[str, list[MeasuredCell]] = {sweep.folder: [] for sweep in sweeps}
    # A confirming process may stand in several sweeps.
    once = {(each.folder if not each.is_confirming else "", each.name): each for of_sweep in named for each in of_sweep}
    for cell in cells_of(once.values()):
        found[cell.folder].append(cell)
    return [
        replace(sweep, processes=processes, cells=found[sweep.folder])
        for sweep, processes in zip(sweeps, named, strict=True)
    ]


def read_all(results: Path, costs: Mapping[Device, Cost] = MappingProxyType({})) -> list[Sweep]:
    """The sweeps in `results` itself and in the folders below it, by study and name.

    The processes in the folder `confirmed` beside `results` are joined with the sweeps whose cells they repeat.

    Of a folder in which nothing can be read, the sweep has no cells, and a note that says why.

    Raises:
        UserError: there is no sweep, or none can be read.
    """
    folders = plan_file.sweep_folders(results)
    if not folders:
        raise UserError(f"{results}: no sweep there (no {PLAN}, no records); run one first, or name another folder")
    sweeps, errors = [], []
    for folder, refused in folders.items():
        try:
            if refused is not None:
                raise refused
            sweep = _read(folder, costs)
        except UserError as error:
            errors.append(error)
            note = str(error) if refused is None else _unlisted(folder, refused)
            name = clean(folder.name)
            sweep = Sweep(folder=name, suite=name, title=name, notes=[note])
        is_deep = results not in (folder, folder.parent)
        sweeps.append(replace(sweep, folder=clean(str(folder.relative_to(results)))) if is_deep else sweep)
    if len(errors) == len(folders):
        raise errors[0]
    sweeps = _with_confirming(sweeps, results.parent / CONFIRMED, costs)
    return sorted(with_best_ceilings(sweeps), key=lambda sweep: (sweep.study or "none", sweep.folder))


def _unlisted(folder: Path, refused: RefusedError) -> str:
    return f"{_place(folder)}: {str(refused).removeprefix(f'{folder}: ')}: what is in it is not shown"


def _place(folder: Path) -> str:
    """The last two names of the folder's path: the same wherever the report is built."""
    return clean("/".join(folder.resolve().parts[-2:]))


def _with_confirming(sweeps: list[Sweep], folder: Path, costs: Mapping[Device, Cost]) -> list[Sweep]:
    """The same sweeps, with the processes of `folder`'s plans that repeat one of their cells on the same machine."""
    found: list[Process] = []
    for place, refused in plan_file.sweep_folders(folder).items():
        if refused is not None:
            sweeps[0].notes.append(_unlisted(place, refused))
            continue
        if not os.path.lexists(place / PLAN):  # its question is not asked any more
            continue
        try:
            found += [replace(each, is_confirming=True) for each in _read(place, costs).processes]
        except UserError as error:
            sweeps[0].notes.append(str(error))
    if not found:
        return sweeps
    keys = [{(each.cell.suite, each.measured_key) for each in sweep.processes} for sweep in sweeps]
    return [
        replace(
            sweep,
            processes=[*sweep.processes, *(each for each in found if (each.cell.suite, each.measured_key) in known)],
        )
        for sweep, known in zip(sweeps, keys, strict=True)
    ]


def with_best_ceilings(sweeps: Sequence[Sweep], known: Mapping[str, Ceilings] = MappingProxyType({})) -> list[Sweep]:
    """The same sweeps; each record has the highest ceilings of its device that any record has, or `known`."""
    best = dict(known)
    for record in (record for sweep in sweeps for record in sweep.records):
        if ceilings := ceilings_in(record.environment):
            higher = best.get(device_key(record))
            best[device_key(record)] = higher.joined(ceilings) if higher else ceilings

    def with_best(each: Process) -> Process:
        if each.record is None or device_key(each.record) not in best:
            return each
        environment = {**each.record.environment, "ceilings": best[device_key(each.record)].to_json()}
        return replace(each, record=replace(each.record, environment=environment))

    return with_cells([replace(sweep, processes=[with_best(each) for each in sweep.processes]) for sweep in sweeps])


def read(folder: Path, costs: Mapping[Device, Cost] = MappingProxyType({})) -> Sweep:
    """The sweep in `folder`: the cells that its plan names, or without a plan those of all its records.

    Raises:
        UserError: neither the plan nor any record is readable.
    """
    return with_cells([_read(folder, costs)])[0]


def _read(folder: Path, costs: Mapping[Device, Cost]) -> Sweep:
    """As `read`, without the cells."""
    race = read_race(folder)
    plan, unread_plan = _plan(folder, race)
    all_paths = sorted(folder.glob(RECORDS))
    readable = plan_file.planned_records(plan, folder) if unread_plan is None else read_records(all_paths)
    records = {path.stem: record for path, record in readable.by_path()}
    place = _place(folder)
    problems = readable.problems(lambda path: f"{place}/{path.name}")
    problem_of = dict(zip([path.stem for path in readable.refused], problems, strict=True))
    names = plan.labels
    processes = [
        Process(
            cell=wanted.cell,
            name=wanted.record_name,
            label=names[wanted.cell.id],
            record=records.get(wanted.record_name),
            problem=problem_of.get(wanted.record_name),
            costs=costs,
        )
        for wanted in plan.cells
    ]
    disturbed = read_notes.of_disturbed([each.disturbed for each in processes], place)
    return Sweep(
        folder=clean(folder.resolve().name),
        suite=plan.suite,
        title=plan.title,
        study=plan.study,
        profile=plan.profile,
        race=race,
        processes=processes,
        notes=[*listed(problems), *disturbed, *read_notes.of_plan(plan, race, folder, unread_plan, place)],
    )


def _plan(folder: Path, race: RaceFile | None) -> tuple[plan_file.PlanFile, UserError | None]:
    """The folder's plan; or one of all its records but a search's short ones, and why its own can't be read.

    Raises:
        UserError: neither the plan nor any record is readable.
    """
    try:
        return plan_file.read_plan(folder), None
    except UserError as error:
        plan = plan_file.plan_of_records(folder)
        short = race.short if race else set()
        cells = [wanted for wanted in plan.cells if wanted.record_name not in short]
        if not cells:
            raise read_notes.nothing_is_readable(folder, error) from error
        return replace(plan, cells=cells), error
