"""What sweeps planned and what became of it, read from their folders.

Each record is read once, by one of several processes, and its raw samples are dropped (`Process.without_samples`): ten
thousand whole records take a gigabyte of memory.
"""

import os
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from types import MappingProxyType

from accelbench.answers.cells import MeasuredCell, cells_of
from accelbench.answers.process import WHY_OLDER, Process
from accelbench.errors import RefusedError, UserError
from accelbench.judging.costs import Cost
from accelbench.presentation import counted
from accelbench.project import CONFIRMED, PARAMS, PLAN, RECORDS, RESULTS
from accelbench.schema import plan_file
from accelbench.schema.ceilings import RATES, Ceilings, ceilings_in
from accelbench.schema.cell import Cell
from accelbench.schema.parallel import mapped, without_collection
from accelbench.schema.plan_file import PlanFile, RaceFile, read_entry, read_race
from accelbench.schema.record import Record, listed, read_environment
from accelbench.schema.record import read_all as read_records
from accelbench.schema.serialize import changed, dumps
from accelbench.schema.text import clean
from accelbench.schema.vocab import Device

# Cells that a page shows, and how many of the newest sweep where there are more: a page of 2,000 opens in two seconds
# (`make bench BENCH=report`).
MANY, SHOWN = 5_000, 2_000
MAX_NAMED = 3  # records in a note
SPEEDS = ("flops_per_s", "disturbed", "launch_s", *RATES)  # of ceilings: what a cell is judged by
Costs = Mapping[Device, Cost]
NO_COSTS: Costs = MappingProxyType({})


@dataclass(frozen=True, kw_only=True, eq=False)
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
    unread: list[str] = field(default_factory=list)  # a line for each record, or whole folder, that can't be read

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
    named = [[changed(each, folder=sweep.folder) for each in sweep.processes] for sweep in sweeps]
    found: dict[str, list[MeasuredCell]] = {sweep.folder: [] for sweep in sweeps}
    # A confirming process may stand in several sweeps.
    once = {(each.folder if not each.is_confirming else "", each.name): each for of_sweep in named for each in of_sweep}
    for cell in cells_of(once.values()):
        found[cell.folder].append(cell)
    made = []
    for sweep, processes in zip(sweeps, named, strict=True):
        cells = found[sweep.folder]
        num = sum(each.is_older for each in cells)
        notes = [f"Older: {counted(num, 'cell')} of {sweep.folder}, {WHY_OLDER}: in no answer"] if num else []
        made.append(replace(sweep, processes=processes, cells=cells, notes=[*sweep.notes, *notes]))
    return made


@without_collection()
def read_all(
    results: Path, costs: Costs = NO_COSTS, wanted: Collection[str] | None = None, *, alone: bool = False
) -> list[Sweep]:
    """The sweeps in `results` itself and in the folders below it, by study and name.

    Of the folders below it only those of the suites `wanted` are read, and a note names the others; None: all are.

    The processes in the folder `confirmed` beside results/ are joined with the sweeps whose cells they repeat. Each is
    judged by the highest ceilings that any record has of its device. Of a suite in results/, the figures are those of
    all suites together; `alone`: of its own processes and the confirming ones.

    Of a folder in which nothing can be read, the sweep has no cells, and a note that says why.

    Raises UserError: there is no sweep, none is wanted, or none can be read.
    """
    folders = plan_file.sweep_folders(results)
    if not folders:
        raise UserError(f"{results}: no sweep there (no {PLAN}, no records); run one first, or name another folder")
    above = results.absolute().parent
    if above.name == RESULTS and not alone:
        own = [each for each in read_all(above, costs, wanted) if each.folder.split("/")[0] == clean(results.name)]
        if not any(each.processes for each in own):
            unread = [line for each in own for line in each.unread]
            raise UserError(unread[0] if unread else f"{results}: nothing to show")
        return own
    names = {folder: folder.relative_to(results).parts[0] for folder in folders if folder != results}
    others = {folder: name for folder, name in names.items() if wanted is not None and name not in wanted}
    unwanted = f"Of suites that {PARAMS} does not have, and not shown: {clean(', '.join(sorted({*others.values()})))}"
    if len(others) == len(folders):
        raise UserError(f"{results}: nothing to show. {unwanted}")
    folders = {folder: refused for folder, refused in folders.items() if folder not in others}
    found = _read(folders, costs)
    errors = [each for each in found.values() if isinstance(each, UserError)]
    if len(errors) == len(found):
        raise errors[0]
    sweeps = []
    for folder, each in found.items():
        is_deep = results not in (folder, folder.parent)
        # Not resolved, since its links may form a circle.
        name = clean(str(folder.relative_to(results)) if is_deep else folder.absolute().name)
        if isinstance(each, UserError):
            last = clean(folder.name)
            each = Sweep(folder=name, suite=last, title=last, notes=[_unread(folder, each)], unread=[str(each)])
        sweeps.append(replace(each, folder=name))
    if others:
        sweeps[0].notes.append(f"{unwanted}; their records stay in {clean(results.name)}")
    sweeps = _judged_alike(_with_confirming(sweeps, confirmed_of(results), costs), costs)
    return sorted(with_cells(sweeps), key=lambda sweep: (sweep.study or "none", sweep.folder))


def confirmed_of(results: Path) -> Path:
    """The folder of the processes that confirm answers about the records in `results`: results/, or a suite in it."""
    above = results.absolute().parent
    return (above.parent if above.name == RESULTS else above) / CONFIRMED


def read(folder: Path, costs: Costs = NO_COSTS) -> Sweep:
    """The sweep in `folder`: the cells that its plan names, or without a plan those of all its records.

    Raises UserError: neither the plan nor any record is readable.
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
    folders = {  # without a plan, its question is not asked any more
        place: refused
        for place, refused in plan_file.sweep_folders(folder).items()
        if refused is not None or os.path.lexists(place / PLAN)
    }
    found: list[Process] = []
    for place, each in _read(folders, costs).items():
        if isinstance(each, UserError):
            sweeps[0].notes.append(_unread(place, each))
        else:
            found += [changed(process, is_confirming=True) for process in each.processes]
    joined = []
    for sweep in sweeps:
        known = {(each.cell.suite, each.measured_key) for each in sweep.processes}
        repeating = [each for each in found if (each.cell.suite, each.measured_key) in known]
        joined.append(replace(sweep, processes=[*sweep.processes, *repeating]))
    return joined


def _read(folders: Mapping[Path, RefusedError | None], costs: Costs) -> dict[Path, Sweep | UserError]:
    """Folder -> its sweep without cells, or why nothing in it can be read."""
    # The records of all plans are read in one pass: processes that start later would be copies of a larger one. A sweep
    # without a readable plan has the cells of all its records but a search's short ones.
    plans: dict[Path, tuple[PlanFile, list[bytes]]] = {}
    found: dict[Path, Sweep | UserError] = {}
    for folder, refused in folders.items():
        try:
            if refused is not None:
                raise refused
            plans[folder] = plan_file.read_entries(folder)
        except UserError as error:
            found[folder] = error
    made = mapped(partial(_planned, costs), [(folder, entry) for folder, (_, of) in plans.items() for entry in of])
    for folder, (plan, entries) in plans.items():
        processes = list(islice(made, len(entries)))
        bad = [each for each in processes if isinstance(each, str)]
        found[folder] = (
            UserError(f"{folder / PLAN}: not a readable plan ({bad[0]}); run the sweep again")
            if bad
            else _sweep(folder, plan, [each for each in processes if isinstance(each, Process)])
        )
    for folder, each in found.items():
        if isinstance(each, UserError) and folders[folder] is None:
            try:
                found[folder] = _of_records(folder, costs, each)
            except UserError as error:
                found[folder] = error
    return {folder: found[folder] for folder in folders}


def _planned(costs: Costs, item: tuple[Path, bytes]) -> Process | str:
    """The process of an entry of the plan in a folder; or why the entry is not readable."""
    folder, entry = item
    try:
        wanted = read_entry(entry)
    except UserError as error:
        return str(error)
    return _of_file(folder / f"{wanted.record_name}.json", wanted.cell, wanted.label, costs)


def _of_records(folder: Path, costs: Costs, unread: UserError) -> Sweep:
    """The sweep of a folder whose plan is `unread`. Raises UserError: no record is readable."""
    race, readable = read_race(folder), read_records(sorted(folder.glob(RECORDS)))
    found = [
        changed(each, path=path)
        for path, each in readable.each(lambda record: Process.of(record, costs).without_samples())
    ]
    made = [each for each in found if race is None or each.name not in race.short]
    problems = readable.problems(lambda path: f"{_place(folder)}/{path.name}")
    if not made and (found or not problems):  # without records, or all are short ones of a search
        raise unread
    if not made:
        first = f"{counted(len(problems), 'record')}, none of which can be read; the first: {problems[0]}"
        raise UserError(f"{unread}; {first}" if os.path.lexists(folder / PLAN) else f"{folder}: {first}") from unread
    if len({each.label for each in made}) < len({each.cell.id for each in made}):
        labels = plan_file.labels(each.cell for each in made)
        made = [changed(each, label=labels[each.cell.id]) for each in made]
    suites = ", ".join(dict.fromkeys(each.cell.suite for each in made))
    plan = PlanFile(suite=suites, title=folder.resolve().name, study=None, profile=None, cells=[])
    return _sweep(folder, plan, sorted(made, key=lambda each: (each.started_at, each.name)), problems, unread)


def _sweep(
    folder: Path, plan: PlanFile, made: list[Process], unreadable: Sequence[str] = (), unread: UserError | None = None
) -> Sweep:
    race = read_race(folder)
    return Sweep(
        folder=clean(folder.resolve().name),
        suite=plan.suite,
        title=plan.title,
        study=plan.study,
        profile=plan.profile,
        race=race,
        processes=made,
        notes=list(_notes(folder, made, race.short if race else set(), unreadable, unread)),
        unread=[*unreadable, *(each.problem for each in made if each.problem)],
    )


def _of_file(path: Path, cell: Cell, label: str, costs: Costs, ceilings: Ceilings | None = None) -> Process:
    readable = read_records([path])
    record = next(iter(readable), None)
    if record is not None and ceilings is not None:
        values = {**record.environment, "ceilings": ceilings}
        record = replace(record, environment=read_environment(dumps(values)))
    problem = next(iter(readable.problems(lambda path: f"{_place(path.parent)}/{path.name}")), None)
    made = Process(cell=cell, name=path.stem, label=label, record=record, problem=problem, costs=costs, path=path)
    return made.without_samples()


def _notes(
    folder: Path, processes: Sequence[Process], short: Set[str], unreadable: Sequence[str], unread: UserError | None
) -> Iterator[str]:
    """What a reader should know of a folder's records and of its plan, which may be `unread`."""
    place, names = _place(folder), {each.name for each in processes} | short
    others = sorted(path for path in folder.glob(RECORDS) if path.stem not in names)
    yield from listed([*unreadable, *(each.problem for each in processes if each.problem)])
    if disturbed := [each.disturbed for each in processes if each.disturbed]:
        yield (
            f"Disturbed: {len(disturbed):,} of {len(processes):,} processes in {place} ({disturbed[0]}): no answer "
            "counts them. The same sweep with retry=failed measures them again."
        )
    if short:
        yield (f"{len(short):,} records in {place} are of short windows of a search: too short to publish.")
    if unread is not None:
        is_missing = not os.path.lexists(folder / PLAN)
        yield (
            (f"{place} has no {PLAN}" if is_missing else str(unread).replace(str(folder), place))
            + ": the cells of all its records are shown, in the order in which they were measured. "
            "Which study they belong to, and which cells were planned but not measured, is unknown."
        )
    elif others:
        named = ", ".join([*(path.name for path in others[:MAX_NAMED]), *["..."][: len(others) > MAX_NAMED]])
        yield (
            f"Not in the plan of {place}, and not shown: {counted(len(others), 'record')} (of cells that are no "
            f"longer wanted, or of other code, versions or machines): {named}"
        )


def _judged_alike(sweeps: Sequence[Sweep], costs: Costs) -> list[Sweep]:
    """The same sweeps; processes with lower ceilings than others of their device are read again and judged by these."""
    every = [each for sweep in sweeps for each in sweep.processes if each.record is not None]
    environments = {each.environment_key: each.environment for each in every}
    own = {key: ceilings_in(environment) for key, environment in environments.items()}
    best: dict[str, Ceilings] = {}
    for device, key in dict.fromkeys((each.device_key, each.environment_key) for each in every):
        if (found := own[key]) is not None:
            best[device] = best[device].joined(found) if device in best else found

    def speeds(found: Ceilings | None) -> list[object]:
        return [] if found is None else [getattr(found, name) for name in SPEEDS]

    def is_lower(each: Process) -> bool:
        return each.device_key in best and speeds(own[each.environment_key]) != speeds(best[each.device_key])

    def again(each: Process) -> Process:
        assert each.path is not None
        judged = _of_file(each.path, each.cell, each.label, costs, best[each.device_key])
        return changed(judged, folder=each.folder, is_confirming=each.is_confirming)

    lower = [each for each in every if is_lower(each)]
    judged = dict(zip(map(id, lower), mapped(again, lower), strict=True))
    return [replace(sweep, processes=[judged.get(id(each), each) for each in sweep.processes]) for sweep in sweeps]


def newest(sweeps: Sequence[Sweep]) -> tuple[list[Sweep], list[str]]:
    """What a page shows cell by cell, of very many cells the newest of a sweep, and then a notice that says so."""
    # The newest sweep is the one with the latest start of a record, by the clock of the machine that measured it.
    num_cells = sum(len(sweep.cells) for sweep in sweeps)
    if num_cells <= MANY:
        return list(sweeps), []
    last = max(sweeps, key=lambda sweep: max((each.started_at for each in sweep.processes), default=""))
    cells = last.cells[-SHOWN:]
    notice = (
        f"{num_cells:,} cells are too many for one page: its answers are of all, and it shows the last "
        f"{len(cells):,} cells of the newest sweep, {last.folder}. cells.csv has every cell."
    )
    return [replace(last, cells=cells)], [notice]
