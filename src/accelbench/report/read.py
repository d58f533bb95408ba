"""Reads sweeps from their folders: the plans, and the records of planned cells.

A record is read once. Its raw samples are dropped (`Process.without_samples`), because with them ten thousand records
would take a gigabyte of memory.
"""

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from accelbench.answers.cells import WHY_OLDER, MeasuredCell, Process, cells_of
from accelbench.errors import UserError
from accelbench.judging.costs import Cost
from accelbench.presentation import counted
from accelbench.project import CONFIRMED, PARAMS, PLAN, RECORDS, RESULTS
from accelbench.schema import plan_file
from accelbench.schema.cell import Device
from accelbench.schema.plan_file import RaceFile, read_race
from accelbench.schema.record import listed
from accelbench.schema.record import read_all as read_records
from accelbench.schema.serialize import changed, grouped
from accelbench.schema.text import clean

MAX_NAMED = 3  # records in a note
Costs = Mapping[Device, Cost]
NO_COSTS: Costs = MappingProxyType({})


@dataclass(frozen=True, kw_only=True, eq=False)
class Sweep:
    """One suite's plan and its records."""

    folder: str  # the folder's name, unique among the sweeps of a report
    suite: str
    title: str
    study: str | None = None  # the published study that the suite repeats, such as `001`
    profile: str | None = None  # the profile of params.yaml that the plan used
    # In the plan's order, each with its published speed.
    cells: list[MeasuredCell] = field(default_factory=list)
    # The planned processes in the plan's order, and processes that confirm an answer about one of these cells.
    processes: list[Process] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)  # of the search that measured the cells
    # Sentences about unreadable records, records that the plan does not name, and a missing plan.
    notes: list[str] = field(default_factory=list)
    # A line for each record, or whole folder, that can't be read.
    unread: list[str] = field(default_factory=list)

    @property
    def planned(self) -> list[Process]:
        """The planned processes."""
        return [process for process in self.processes if not process.is_confirming]


def cells_in(sweeps: Iterable[Sweep]) -> list[MeasuredCell]:
    """The cells of all sweeps."""
    return [cell for sweep in sweeps for cell in sweep.cells]


def read_all(
    results: Path, costs: Costs = NO_COSTS, wanted: Collection[str] | None = None, *, alone: bool = False
) -> list[Sweep]:
    """Reads the sweeps in `results` and in the folders below it. They are sorted by study and name.

    `results` may also be the folder of a suite in results/. Then only this suite's sweeps are returned. The other
    suites are read, too, because a cell may have processes in several suites. If `alone` is true, they are not read.

    `wanted` names the suites to read; None means all. A note names the suites that were not read. Processes in the
    folder `confirmed` beside results/ repeat cells. They are added to the sweeps of these cells.

    If nothing in a folder can be read, its sweep has no cells. A note gives the reason.

    Raises UserError: there is no sweep, none is wanted, or none can be read.
    """
    folders = plan_file.sweep_folders(results)
    if not folders:
        raise UserError(
            f"{results}: no sweep there (no {PLAN}, no records); run one first, or name another folder"
        )
    above = results.absolute().parent
    if above.name == RESULTS and not alone:
        name = clean(results.name)
        of_suite = [sweep for sweep in read_all(above, costs, wanted) if sweep.folder.split("/")[0] == name]
        if not any(sweep.processes for sweep in of_suite):
            unread = [line for sweep in of_suite for line in sweep.unread]
            raise UserError(unread[0] if unread else f"{results}: nothing to show")
        return of_suite
    names = {folder: "" if folder == results else folder.relative_to(results).parts[0] for folder in folders}
    others = set() if wanted is None else set(names.values()) - {"", *wanted}
    unwanted = f"Not shown, because {PARAMS} has no such suites: {clean(', '.join(sorted(others)))}"
    planned = [folder for folder in folders if names[folder] not in others]
    if not planned:
        raise UserError(f"{results}: nothing to show. {unwanted}")
    # A folder without a plan belongs to a question that is no longer asked.
    repeats = plan_file.sweep_folders(confirmed_of(results))
    confirming = [folder for folder in repeats if os.path.lexists(folder / PLAN)]
    found = []
    for folder in planned:
        # The path is not resolved, since its links may form a circle.
        name = str(folder.relative_to(results)) if folder != results else folder.absolute().name
        found.append(_read(folder, costs, clean(name)))
    if all(sweep.unread and not sweep.processes for sweep in found):
        raise UserError(found[0].unread[0])
    if others:
        found[0].notes.append(f"{unwanted}; their records stay in {clean(results.name)}")
    repeated = []
    for folder in confirming:
        sweep = _read(folder, costs, folder.name)
        repeated += sweep.processes
        if not sweep.processes:
            found[0].notes.extend(sweep.notes)
    for sweep in found:
        known = {(process.cell.suite, process.measured_key) for process in sweep.processes}
        for process in repeated:
            if (process.cell.suite, process.measured_key) in known:
                sweep.processes.append(changed(process, is_confirming=True, folder=sweep.folder))
    _add_cells(found)
    return sorted(found, key=lambda sweep: (sweep.study or "none", sweep.folder))


def confirmed_of(results: Path) -> Path:
    """Returns the folder of processes that confirm answers. `results` is results/ or the folder of a suite in it."""
    above = results.absolute().parent
    return (above.parent if above.name == RESULTS else above) / CONFIRMED


def read(folder: Path, costs: Costs = NO_COSTS) -> Sweep:
    """Reads the sweep in `folder`. It has the cells of the plan. Without a plan, it has the cells of all records.

    Raises UserError: neither the plan nor any record is readable.
    """
    sweep = _read(folder, costs, clean(folder.resolve().name))
    if sweep.unread and not sweep.processes:
        raise UserError(sweep.unread[0])
    _add_cells([sweep])
    return sweep


def _read(folder: Path, costs: Costs, name: str) -> Sweep:
    """Reads a folder's sweep, which has no cells yet. Notes name what can't be read."""
    place = clean("/".join(folder.resolve().parts[-2:]))  # is the same wherever the report is built
    try:
        race = read_race(folder) or RaceFile(answers=[])
    except UserError as error:
        note = f"{str(error).replace(str(folder), place)}: this folder is not shown"
        return Sweep(folder=name, suite=name, title=name, notes=[note], unread=[str(error)])
    plan, problem = None, ""
    try:
        plan = plan_file.read_plan(folder)
        paths = [folder / f"{wanted.record_name}.json" for wanted in plan.cells]
    except UserError as error:
        problem = str(error)
        paths = sorted(folder.glob(RECORDS))
    readable = read_records(paths)
    made = {}
    for path, record in readable.by_path():
        made[path] = Process.of(record, costs=costs, path=path, folder=name).without_samples()
    unread = readable.problems(lambda path: f"{place}/{path.name}")
    processes = []
    if plan is None:
        ordered = sorted(made.values(), key=lambda process: (process.started_at, process.name))
        labels = plan_file.labels(process.cell for process in ordered if process.name not in race.short)
        for process in ordered:
            if process.name not in race.short:
                processes.append(changed(process, label=labels[process.cell.id]))
    else:
        why = dict(zip(readable.refused, unread, strict=True))
        for path, wanted in zip(paths, plan.cells, strict=True):
            process = made.get(path) or Process(
                cell=wanted.cell,
                name=wanted.record_name,
                label=wanted.label,
                record=None,
                problem=why.get(path),
                path=path,
                folder=name,
            )
            processes.append(changed(process, label=wanted.label, words=wanted.words))
    if problem and not processes:
        unread = unread or [problem]
    notes = listed(unread)
    if disturbed := [process.disturbed for process in processes if process.disturbed]:
        notes.append(
            f"Disturbed: {len(disturbed):,} of {len(processes):,} processes in {place} ({disturbed[0]}): no answer "
            "uses them. Run the sweep again with retry=failed to measure them again."
        )
    if race.short:
        notes.append(
            f"{len(race.short):,} records in {place} are from a search's short windows, which are too short to publish."
        )
    if problem and processes:
        is_missing = not os.path.lexists(folder / PLAN)
        notes.append(
            (f"{place} has no {PLAN}" if is_missing else problem.replace(str(folder), place))
            + ": the cells of all its records are shown, in the order in which they were measured. "
            "Which study they belong to, and which cells were planned but not measured, is unknown."
        )
    names = {*race.short, *(process.name for process in processes)}
    others = sorted(path.name for path in folder.glob(RECORDS) if path.stem not in names)
    if plan is not None and others:
        notes.append(
            f"Not shown, because the plan of {place} lacks them: {counted(len(others), 'record')} (their cells are no "
            f"longer wanted, or their code, versions or machine changed): {', '.join(others[:MAX_NAMED])}"
            + (", ..." if len(others) > MAX_NAMED else "")
        )
    suites = dict.fromkeys(process.cell.suite for process in processes)
    return Sweep(
        folder=name,
        suite=plan.suite if plan else ", ".join(suites),
        title=plan.title if plan else name,
        study=plan.study if plan else None,
        profile=plan.profile if plan else None,
        answers=race.answers,
        processes=processes,
        notes=notes,
        unread=unread,
    )


def _add_cells(sweeps: Sequence[Sweep]) -> None:
    """Adds the cells to the sweeps. The processes of one cell may lie in several sweeps."""
    # A confirming process may stand in several sweeps.
    once = {}
    for sweep in sweeps:
        for process in sweep.processes:
            once["" if process.is_confirming else sweep.folder, process.name] = process
    by_folder = grouped(cells_of(once.values()), lambda cell: cell.folder)
    for sweep in sweeps:
        sweep.cells.extend(by_folder.get(sweep.folder, []))
        if num := sum(cell.is_older for cell in sweep.cells):
            sweep.notes.append(
                f"Older: {counted(num, 'cell')} of {sweep.folder}, {WHY_OLDER}: no answer uses them"
            )
