"""What sweeps planned and what became of it, read from their folders.

Each record is read once, by one of several processes, and its raw samples are dropped (`Process.without_samples`): ten
thousand whole records take a gigabyte of memory.
"""

import os
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from accelbench.answers.cells import MeasuredCell, cells_of
from accelbench.answers.process import Process
from accelbench.errors import RefusedError, UserError
from accelbench.judging.costs import Cost
from accelbench.presentation import counted
from accelbench.project import CONFIRMED, PLAN, RECORDS
from accelbench.schema import plan_file
from accelbench.schema.ceilings import Ceilings, ceilings_in
from accelbench.schema.cell import Cell
from accelbench.schema.parallel import mapped
from accelbench.schema.plan_file import PlanEntry, PlanFile, WantedCell
from accelbench.schema.race_file import RaceFile, read_race
from accelbench.schema.record import Record, listed
from accelbench.schema.record import read_all as read_records
from accelbench.schema.text import clean
from accelbench.schema.vocab import Device

# Cells that a page shows, and how many of the newest sweep where there are more: a page of 2,000 opens in two seconds
# (`make bench BENCH=report`).
MANY, SHOWN = 5_000, 2_000
AT_ONCE = 20_000  # cells whose plans are held at a time
MAX_NAMED = 3  # records in a note
Costs = Mapping[Device, Cost]
NO_COSTS: Costs = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """One suite's plan and its records."""

    folder: str  # its name, unique among the sweeps of a report
    suite: str
    title: str
    study: str | None = None  # the published study that the suite repeats, such as `001`
    profile: str | None = None  # which of params.yaml's profiles it was planned with
    cells: list[MeasuredCell] = field(default_factory=list)  # in the plan's order, each with its published speed
    # The planned ones in the plan's order, and those that confirm an answer about one of these cells.
    processes: list[Process] = field(default_factory=list)
    race: RaceFile | None = None  # how the search went that measured them
    # Sentences about records that can't be read or that the plan does not name, and about a plan that is missing.
    notes: list[str] = field(default_factory=list)

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


def read_all(results: Path, costs: Costs = NO_COSTS) -> list[Sweep]:
    """The sweeps in `results` itself and in the folders below it, by study and name.

    The processes in the folder `confirmed` beside `results` are joined with the sweeps whose cells they repeat. Each is
    judged by the highest ceilings that any record has of its device.

    Of a folder in which nothing can be read, the sweep has no cells, and a note that says why.

    Raises:
        UserError: there is no sweep, or none can be read.
    """
    folders = plan_file.sweep_folders(results)
    if not folders:
        raise UserError(f"{results}: no sweep there (no {PLAN}, no records); run one first, or name another folder")
    found = _read(folders, costs)
    unread = [each for each in found.values() if isinstance(each, UserError)]
    if len(unread) == len(found):
        raise unread[0]
    sweeps = []
    for folder, each in found.items():
        is_deep = results not in (folder, folder.parent)
        name = clean(str(folder.relative_to(results)) if is_deep else folder.resolve().name)
        if isinstance(each, UserError):
            last = clean(folder.name)
            each = Sweep(folder=name, suite=last, title=last, notes=[_unread(folder, each)])
        sweeps.append(replace(each, folder=name))
    sweeps = _judged_alike(_with_confirming(sweeps, results.parent / CONFIRMED, costs), costs)
    return sorted(with_cells(sweeps), key=lambda sweep: (sweep.study or "none", sweep.folder))


def read(folder: Path, costs: Costs = NO_COSTS) -> Sweep:
    """The sweep in `folder`: the cells that its plan names, or without a plan those of all its records.

    Raises:
        UserError: neither the plan nor any record is readable.
    """
    (found,) = _read({folder: None}, costs).values()
    if isinstance(found, UserError):
        raise found
    return with_cells([found])[0]


def _unread(folder: Path, error: UserError) -> str:
    if not isinstance(error, RefusedError):
        return str(error)
    return f"{_place(folder)}: {str(error).removeprefix(f'{folder}: ')}: what is in it is not shown"


def _place(folder: Path) -> str:
    """The last two names of the folder's path: the same wherever the report is built."""
    return clean("/".join(folder.resolve().parts[-2:]))


def _with_confirming(sweeps: list[Sweep], folder: Path, costs: Costs) -> list[Sweep]:
    """The same sweeps, with the processes of `folder`'s plans that repeat one of their cells on the same machine."""
    asked = {  # without a plan, its question is not asked any more
        place: refused
        for place, refused in plan_file.sweep_folders(folder).items()
        if refused is not None or os.path.lexists(place / PLAN)
    }
    found: list[Process] = []
    for place, each in _read(asked, costs).items():
        if isinstance(each, UserError):
            sweeps[0].notes.append(_unread(place, each))
        else:
            found += [replace(process, is_confirming=True) for process in each.processes]
    joined = []
    for sweep in sweeps:
        known = {(each.cell.suite, each.measured_key) for each in sweep.processes}
        repeating = [each for each in found if (each.cell.suite, each.measured_key) in known]
        joined.append(replace(sweep, processes=[*sweep.processes, *repeating]))
    return joined


class _Plan(NamedTuple):
    """What a folder's plan names, or the cells of its records, and why its own plan can't be read."""

    head: PlanFile
    entries: Sequence[PlanEntry | WantedCell]
    race: RaceFile | None
    unread: UserError | None = None

    @property
    def short(self) -> Set[str]:
        """The names of a search's records of short windows."""
        return self.race.short if self.race else frozenset()


def _read(folders: Mapping[Path, RefusedError | None], costs: Costs) -> dict[Path, Sweep | UserError]:
    """Folder -> its sweep, without cells; or why nothing in it can be read."""
    found: dict[Path, Sweep | UserError] = {}
    plans: dict[Path, _Plan] = {}
    for number, (folder, refused) in enumerate(folders.items(), 1):
        try:
            if refused is not None:
                raise refused
            plans[folder] = _plan(folder)
        except UserError as error:
            found[folder] = error
        if number == len(folders) or sum(len(plan.entries) for plan in plans.values()) >= AT_ONCE:
            found |= _sweeps(plans, costs)
            plans = {}
    return {folder: found[folder] for folder in folders}


def _plan(folder: Path, unread: UserError | None = None) -> _Plan:
    """The plan of a folder; of all its records but a search's short ones, if its own is `unread` or can't be read.

    Raises:
        UserError: neither the plan nor any record is readable.
    """
    race = read_race(folder)
    try:
        if unread is None:
            return _Plan(*plan_file.read_entries(folder), race)
    except UserError as error:
        unread = error
    plan = plan_file.plan_of_records(folder)
    cells = [wanted for wanted in plan.cells if race is None or wanted.record_name not in race.short]
    if not cells:
        raise _nothing_is_readable(folder, unread) from unread
    return _Plan(plan, cells, race, unread)


def _sweeps(plans: Mapping[Path, _Plan], costs: Costs) -> dict[Path, Sweep | UserError]:
    entries = [(folder, entry) for folder, plan in plans.items() for entry in plan.entries]
    processes: dict[Path, list[Process]] = {folder: [] for folder in plans}
    bad: dict[Path, UserError] = {}
    for (folder, _), made in zip(entries, mapped(partial(_process, costs), entries), strict=True):
        if isinstance(made, Process):
            processes[folder].append(made)
        else:
            bad.setdefault(folder, UserError(f"{folder / PLAN}: not a readable plan ({made}); run the sweep again"))
    found: dict[Path, Sweep | UserError] = {}
    for folder, plan in plans.items():
        try:
            if folder in bad:
                found |= _sweeps({folder: _plan(folder, bad[folder])}, costs)
            else:
                found[folder] = _sweep(folder, plan, _shared(processes[folder]))
        except UserError as error:
            found[folder] = error
    return found


def _process(costs: Costs, item: tuple[Path, PlanEntry | WantedCell]) -> Process | str:
    """A planned process, with its record if that is readable; or why its entry in the plan is not."""
    folder, entry = item
    try:
        wanted = entry if isinstance(entry, WantedCell) else entry.read()
    except UserError as error:
        return str(error)
    return _of_file(folder / f"{wanted.record_name}.json", wanted.cell, wanted.label, costs).without_samples()


def _of_file(path: Path, cell: Cell, label: str, costs: Costs, ceilings: Ceilings | None = None) -> Process:
    readable = read_records([path])
    record = next(iter(readable), None)
    if record is not None and ceilings is not None:
        record = replace(record, environment={**record.environment, "ceilings": ceilings.to_json()})
    problem = next(iter(readable.problems(lambda path: f"{_place(path.parent)}/{path.name}")), None)
    return Process(cell=cell, name=path.stem, label=label, record=record, problem=problem, costs=costs, path=path)


def _shared(processes: Sequence[Process]) -> list[Process]:
    """The same; equal environments of records are one object, since many would fill the memory."""
    environments: dict[str, Mapping[str, object]] = {}
    shared = []
    for each in processes:
        if each.record is not None:
            known = environments.setdefault(each.environment_key, each.record.environment)
            each = replace(each, record=replace(each.record, environment=known))
        shared.append(each)
    return shared


def _sweep(folder: Path, plan: _Plan, processes: list[Process]) -> Sweep:
    if len({each.label for each in processes}) < len({each.cell.id for each in processes}):  # of an earlier release
        labels = plan_file.labels(each.cell for each in processes)
        processes = [replace(each, label=labels[each.cell.id]) for each in processes]
    place, names = _place(folder), {each.name for each in processes}
    problems = [each.problem for each in processes if each.problem]
    if plan.unread is not None:
        others = read_records(path for path in sorted(folder.glob(RECORDS)) if path.stem not in names | plan.short)
        list(others)
        problems += others.problems(lambda path: f"{place}/{path.name}")
    disturbed = [each.disturbed for each in processes if each.disturbed]
    notes = listed(problems)
    if disturbed:
        were = "were" if len(disturbed) > 1 else "was"
        notes.append(
            f"{len(disturbed):,} of {len(processes):,} cells in {place} {were} disturbed ({disturbed[0]}): no answer "
            "counts such a cell. The same sweep with retry=failed measures it again."
        )
    return Sweep(
        folder=clean(folder.resolve().name),
        suite=plan.head.suite,
        title=plan.head.title,
        study=plan.head.study,
        profile=plan.head.profile,
        race=plan.race,
        processes=processes,
        notes=[*notes, *_notes_of_plan(folder, plan, names)],
    )


def _notes_of_plan(folder: Path, plan: _Plan, names: Set[str]) -> Iterator[str]:
    """What a reader should know of a folder's plan and of the records that it does not name."""
    place = _place(folder)
    if plan.short:
        yield (
            f"{len(plan.short):,} records in {place} are of short windows of a search: too short to publish, "
            "and only the table of the search counts them."
        )
    if plan.unread is not None:
        is_missing = not os.path.lexists(folder / PLAN)
        yield (
            (f"{place} has no {PLAN}" if is_missing else str(plan.unread).replace(str(folder), place))
            + ": the cells of all its records are shown, in the order in which they were measured. "
            "Which study they belong to, and which cells were planned but not measured, is unknown."
        )
    elif others := sorted({path.stem for path in folder.glob(RECORDS)} - names - plan.short):
        are = "are" if len(others) > 1 else "is"
        shown = ", ".join(f"{name}.json" for name in others[:MAX_NAMED])
        more = f" and {len(others) - MAX_NAMED:,} more" if len(others) > MAX_NAMED else ""
        why = "of cells that are no longer wanted, or of other code, versions or machines"
        what = f"{counted(len(others), 'record')} in {place} {are} not in its plan, and {are} not shown"
        yield f"{what}: {shown}{more} ({why})."


def _nothing_is_readable(folder: Path, of_plan: UserError) -> UserError:
    """Why the folder has no cells: the error of its plan, and of its records the number and the first one's error."""
    readable = read_records(sorted(folder.glob(RECORDS)))
    num, problems = len(list(readable)), readable.problems()
    if num or not problems:  # without records; or those that are readable are short ones of a search
        return of_plan
    first = f"{counted(len(problems), 'record')}, none of which can be read; the first: {problems[0]}"
    return UserError(f"{of_plan}; {first}" if os.path.lexists(folder / PLAN) else f"{folder}: {first}")


def _judged_alike(sweeps: Sequence[Sweep], costs: Costs) -> list[Sweep]:
    """The same sweeps; processes with lower ceilings than others of their device are read again and judged by these."""
    every = [each for sweep in sweeps for each in sweep.processes if each.record is not None]
    own: dict[tuple[str, str], Ceilings | None] = {}
    best: dict[str, Ceilings] = {}
    for each in every:
        key = (each.device_key, each.environment_key)
        if key not in own and each.record is not None:
            found = own[key] = ceilings_in(each.record.environment)
            if found is not None:
                known = best.get(each.device_key)
                best[each.device_key] = known.joined(found) if known else found
    is_lower = {
        key: key[0] in best and (found is None or _speeds(found) != _speeds(best[key[0]])) for key, found in own.items()
    }
    lower = [each for each in every if is_lower[each.device_key, each.environment_key]]

    def again(each: Process) -> Process:
        assert each.path is not None
        judged = _of_file(each.path, each.cell, each.label, costs, best[each.device_key])
        return replace(judged, folder=each.folder, is_confirming=each.is_confirming).without_samples()

    judged = dict(zip(map(id, lower), mapped(again, lower), strict=True))
    return [replace(sweep, processes=[judged.get(id(each), each) for each in sweep.processes]) for sweep in sweeps]


def _speeds(ceilings: Ceilings) -> Ceilings:
    return replace(ceilings, how=dict.fromkeys(ceilings.flops_per_s, ""), seconds=0.0, measured_at="", probed=[])


def newest(sweeps: Sequence[Sweep]) -> tuple[list[Sweep], list[str]]:
    """What a page shows cell by cell, and a notice if that is a part: of very many cells the newest of a sweep.

    The newest sweep is the one with the latest start of a record, by the clock of the machine that measured it.
    """
    num_cells = sum(len(sweep.cells) for sweep in sweeps)
    if num_cells <= MANY:
        return list(sweeps), []
    last = max(sweeps, key=lambda sweep: max((each.started_at for each in sweep.processes), default=""))
    chosen = {id(each) for each in sorted(last.cells, key=lambda each: each.started_at, reverse=True)[:SHOWN]}
    cells = [each for each in last.cells if id(each) in chosen]
    part = "" if len(cells) == len(last.cells) else f"the newest {len(cells):,} of the {len(last.cells):,} cells of "
    everything = f"{num_cells:,} cells of {counted(len(sweeps), 'sweep')} are too many for one page"
    notice = f"{everything}: its answers are of all, and it shows {part}the newest sweep, {last.folder}."
    return [replace(last, cells=cells)], [f"{notice} cells.csv has every cell."]
