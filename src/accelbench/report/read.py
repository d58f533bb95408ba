"""What a sweep planned and what became of it, read from its folder."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

from accelbench.errors import RefusedError, UserError
from accelbench.judging import disturbed
from accelbench.judging.costs import Cost, with_costs
from accelbench.judging.row import summarise, without_numbers
from accelbench.project import CONFIRMED, PLAN, RECORDS
from accelbench.report import read_notes
from accelbench.report.keys import device_key, fingerprint_of
from accelbench.schema import plan_file
from accelbench.schema.ceilings import Ceilings, ceilings_in
from accelbench.schema.cell import Cell
from accelbench.schema.race_file import RaceFile, read_race
from accelbench.schema.record import Record, Row, listed
from accelbench.schema.record import read_all as read_records
from accelbench.schema.serialize import group_key
from accelbench.schema.text import clean
from accelbench.schema.vocab import Device, Status

NOT_RUN = "not run yet"
UNREADABLE = "not readable"


@dataclass(frozen=True, kw_only=True)
class ReportedCell:
    """A cell of the plan, with its record once there is one.

    Attributes:
        name: of the record, `<cell_id>-<identity8>`.
        label: the cell's short name, which no other cell of its sweep has.
        record: None if the cell has not run yet, or if its record can't be read.
        problem: why its record can't be read; None if it can, or if there is none.
        costs: of devices, as the user states them.
        is_confirming: whether the process is one of those that were interleaved with another cell's, to say which is
            faster.
    """

    cell: Cell
    name: str
    label: str
    record: Record | None
    problem: str | None = None
    costs: Mapping[Device, Cost] = field(default_factory=dict)
    is_confirming: bool = False

    @property
    def outcome(self) -> str:
        """The record's status word, `disturbed`, `not readable` or `not run yet`."""
        if self.record is None:
            return UNREADABLE if self.problem else NOT_RUN
        return disturbed.DISTURBED if self.disturbed else self.record.status.value

    @cached_property
    def disturbed(self) -> str | None:
        """What disturbed an ok cell, whose numbers are then not published; None if nothing did."""
        return disturbed.reason(self.record) if self.record else None

    @property
    def reason(self) -> str | None:
        """Why the outcome is not `ok`; None if it is, or if the cell has not run."""
        return (self.record.reason or self.disturbed) if self.record else self.problem

    @property
    def is_ok(self) -> bool:
        """Whether the cell's numbers may be published."""
        return self.outcome == Status.ok

    def number(self, column: str) -> float | None:
        """The number in `column` of `cells.csv`; None if unknown."""
        value = self.row[column]
        return None if value is None else float(value)

    def over(self, other: "ReportedCell | None", column: str) -> float | None:
        """The number in `column` over that of another cell; None if either is unknown."""
        value, base = self.number(column), other.number(column) if other is not None else None
        return value / base if value is not None and base else None

    @cached_property
    def all_but_device(self) -> dict[str, object]:
        """The settings and the data of the cell without the device: equal in cells that compare devices."""
        return self.all_but("device")

    @cached_property
    def key_but_device(self) -> str:
        """`all_but_device` as text, which is faster to compare."""
        return group_key(self.all_but_device)

    def all_but(self, *settings: str) -> dict[str, object]:
        """The settings and the data of the cell without `settings`: equal in cells that compare values of these."""
        digest = self.record.data.digest if self.record and self.record.data else None
        return self._settings | dict.fromkeys(settings) | {"data_digest": digest}

    @cached_property
    def _settings(self) -> dict[str, object]:
        return self.cell.settings()

    @cached_property
    def measured_key(self) -> str:
        """Equal for all repeats and seeds of a cell on one machine, with one software and code."""
        return group_key([self.all_but("repeat", "seed"), fingerprint_of(self.record) if self.record else None])

    @property
    def machine_name(self) -> str:
        """The name of its machine's CPU."""
        machine = self.record.environment.get("machine", {}) if self.record else {}
        return str(machine.get("cpu_name"))

    @cached_property
    def place_key(self) -> str:
        """Equal for all that was measured on one machine with the same packages."""
        environment = self.record.environment if self.record else {}
        return group_key([environment.get("machine"), environment.get("versions")])

    @cached_property
    def row(self) -> Row:
        """The row of `cells.csv`: only settings if the cell has not run, no numbers if it is invalid or disturbed."""
        if self.record is not None:
            row = with_costs(summarise(self.record), self.costs)
            return without_numbers(row) if self.record.status == Status.invalid else row
        # The row of an empty record has all columns; those that come from a run are then emptied.
        cell_id, _, identity = self.name.partition("-")
        empty = Record(
            cell=self.cell,
            cell_id=cell_id,
            identity=identity,
            status=Status.skipped,
            started_at="",
            wall_s=0.0,
            environment={},
        )
        return summarise(empty) | {"status": None, "reason": self.outcome, "started_at": None, "wall_s": None}


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """One suite's plan and its records.

    Attributes:
        folder: the folder's name, unique among the sweeps of a report.
        study: the published study that the suite repeats, such as `001`; None for no study.
        profile: which of params.yaml's profiles it was planned with.
        cells: in the plan's order.
        confirming: further processes of some of these cells, which only the recommendations count.
        race: how the search went that measured them; None if it was none.
        notes: sentences about records that can't be read or that the plan does not name, and about a plan that is
            missing or can't be read.
    """

    folder: str
    suite: str
    title: str
    study: str | None = None
    profile: str | None = None
    cells: list[ReportedCell] = field(default_factory=list)
    confirming: list[ReportedCell] = field(default_factory=list)
    race: RaceFile | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def ok_rows(self) -> list[Row]:
        """The rows of the ok cells."""
        return [reported.row for reported in self.cells if reported.is_ok]

    @property
    def records(self) -> list[Record]:
        """The records of the cells that have run."""
        return [reported.record for reported in self.cells if reported.record is not None]


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
            sweep = read(folder, costs)
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
    found: list[ReportedCell] = []
    for place, refused in plan_file.sweep_folders(folder).items():
        if refused is not None:
            sweeps[0].notes.append(_unlisted(place, refused))
            continue
        if not os.path.lexists(place / PLAN):  # its question is not asked any more
            continue
        try:
            found += [replace(reported, is_confirming=True) for reported in read(place, costs).cells]
        except UserError as error:
            sweeps[0].notes.append(str(error))
    if not found:
        return sweeps
    keys = [{(reported.cell.suite, reported.measured_key) for reported in sweep.cells} for sweep in sweeps]
    return [
        replace(sweep, confirming=[each for each in found if (each.cell.suite, each.measured_key) in known])
        for sweep, known in zip(sweeps, keys, strict=True)
    ]


def with_best_ceilings(sweeps: Sequence[Sweep], known: Mapping[str, Ceilings] = MappingProxyType({})) -> list[Sweep]:
    """The same sweeps; each record has the highest ceilings of its device that any record has, or `known`."""
    best = dict(known)
    for record in (record for sweep in sweeps for record in sweep.records):
        if ceilings := ceilings_in(record.environment):
            higher = best.get(device_key(record))
            best[device_key(record)] = higher.joined(ceilings) if higher else ceilings

    def with_best(reported: ReportedCell) -> ReportedCell:
        if reported.record is None or device_key(reported.record) not in best:
            return reported
        environment = {**reported.record.environment, "ceilings": best[device_key(reported.record)].to_json()}
        return replace(reported, record=replace(reported.record, environment=environment))

    return [
        replace(
            sweep,
            cells=[with_best(reported) for reported in sweep.cells],
            confirming=[with_best(reported) for reported in sweep.confirming],
        )
        for sweep in sweeps
    ]


def read(folder: Path, costs: Mapping[Device, Cost] = MappingProxyType({})) -> Sweep:
    """The sweep in `folder`: the cells that its plan names, or without a plan those of all its records.

    Raises:
        UserError: neither the plan nor any record is readable.
    """
    race = read_race(folder)
    plan, unread_plan = _plan(folder, race)
    all_paths = sorted(folder.glob(RECORDS))
    readable = plan_file.planned_records(plan, folder) if unread_plan is None else read_records(all_paths)
    records = {path.stem: record for path, record in readable.by_path()}
    place = _place(folder)
    problems = readable.problems(lambda path: f"{place}/{path.name}")
    problem_of = dict(zip([path.stem for path in readable.refused], problems, strict=True))
    names = plan.labels
    cells = [
        ReportedCell(
            cell=wanted.cell,
            name=wanted.record_name,
            label=names[wanted.cell.id],
            record=records.get(wanted.record_name),
            problem=problem_of.get(wanted.record_name),
            costs=costs,
        )
        for wanted in plan.cells
    ]
    disturbed = read_notes.of_disturbed([reported.disturbed for reported in cells], place)
    return Sweep(
        folder=clean(folder.resolve().name),
        suite=plan.suite,
        title=plan.title,
        study=plan.study,
        profile=plan.profile,
        race=race,
        cells=cells,
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
