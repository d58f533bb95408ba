"""What a sweep planned and what became of it, read from its folder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

from accelbench.errors import UserError
from accelbench.judging.costs import Cost, with_costs
from accelbench.judging.row import MEASURED, summarise
from accelbench.project import PLAN
from accelbench.schema import plan_file
from accelbench.schema.ceilings import Ceilings, ceilings_in
from accelbench.schema.cell import Cell
from accelbench.schema.record import Record, Row
from accelbench.schema.serialize import canonical_json
from accelbench.schema.vocab import Device, Status

NOT_RUN = "not run yet"
FACTS = ("device_name", "warnings")  # of what a measurement holds, what is no number


@dataclass(frozen=True, kw_only=True)
class ReportedCell:
    """A cell of the plan, with its record once there is one.

    Attributes:
        name: the record's, `<cell_id>-<identity8>`.
        label: the cell's short name for people.
        costs: what its user states of devices.
    """

    cell: Cell
    name: str
    label: str
    record: Record | None
    costs: Mapping[Device, Cost] = field(default_factory=dict)

    @property
    def outcome(self) -> str:
        """The record's status word, or that there is none yet."""
        return self.record.status.value if self.record else NOT_RUN

    @property
    def is_ok(self) -> bool:
        """Whether its numbers may be published."""
        return self.record is not None and self.record.status == Status.ok

    def number(self, column: str) -> float | None:
        """The row's number in `column` of `cells.csv`; None where it is unknown."""
        value = self.row[column]
        return None if value is None else float(value)

    @cached_property
    def all_but_device(self) -> dict[str, object]:
        """What two cells must share for their numbers to be compared between devices."""
        return self.all_but("device")

    def all_but(self, *settings: str) -> dict[str, object]:
        """What two cells must share for their numbers to be compared between values of `settings`."""
        digest = self.record.data.digest if self.record and self.record.data else None
        return self.cell.settings() | dict.fromkeys(settings) | {"data_digest": digest}

    @cached_property
    def measured_key(self) -> str:
        """What the processes share that measured the same: repeats and seeds, in one place."""
        return canonical_json([self.all_but("repeat", "seed"), _place(self.record) if self.record else None])

    @cached_property
    def row(self) -> Row:
        """The row of `cells.csv`: of a cell that has not run, its settings alone; of an invalid one, no numbers."""
        if self.record is not None:
            row = with_costs(summarise(self.record), self.costs)
            invalid = self.record.status == Status.invalid
            return row | {column: None for column in MEASURED if column not in FACTS} if invalid else row
        # Summarising an empty record keeps the columns in one place; what only a run can tell is then emptied.
        identity = self.name.rpartition("-")[2]
        empty = Record(
            cell=self.cell, identity=identity, status=Status.skipped, started_at="", wall_s=0.0, environment={}
        )
        return summarise(empty) | {"status": None, "reason": NOT_RUN, "started_at": None, "wall_s": None}


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """One suite's plan and its records.

    Attributes:
        folder: the folder's name, unique among the sweeps of a report.
        study: the published study that it repeats, such as `001`; None where it repeats none.
        profile: which of params.yaml's profiles it was planned with.
        cells: in the plan's order.
    """

    folder: str
    suite: str
    title: str
    study: str | None
    profile: str | None
    cells: list[ReportedCell]

    @property
    def ok_rows(self) -> list[Row]:
        """The rows whose numbers may be published."""
        return [reported.row for reported in self.cells if reported.is_ok]

    @property
    def records(self) -> list[Record]:
        """The records that there are."""
        return [reported.record for reported in self.cells if reported.record is not None]


def read_all(results: Path, costs: Mapping[Device, Cost] = MappingProxyType({})) -> list[Sweep]:
    """The sweeps under `results` (`<suite>/plan.json`), by study and name; or the one that `results` itself holds.

    Raises:
        UserError: there is none, or a plan or record is not readable.
    """
    folders = [results] if (results / PLAN).exists() else sorted(path.parent for path in results.glob(f"*/{PLAN}"))
    if not folders:
        raise UserError(f"{results}: no results (no <suite>/{PLAN}); run the sweep first")
    sweeps = _with_best_ceilings([read(folder, costs) for folder in folders])
    return sorted(sweeps, key=lambda sweep: (sweep.study or "none", sweep.folder))


def _with_best_ceilings(sweeps: Sequence[Sweep]) -> list[Sweep]:
    """The same, each record with the best ceilings that any record has of its device: one roof for all."""
    best: dict[str, Ceilings] = {}
    for found in (each for sweep in sweeps for each in sweep.records):
        if ceilings := ceilings_in(found.environment):
            known = best.get(_device(found))
            best[_device(found)] = known.joined(ceilings) if known else ceilings

    def raised(reported: ReportedCell) -> ReportedCell:
        if reported.record is None or _device(reported.record) not in best:
            return reported
        environment = {**reported.record.environment, "ceilings": best[_device(reported.record)].to_json()}
        return replace(reported, record=replace(reported.record, environment=environment))

    return [replace(sweep, cells=[raised(reported) for reported in sweep.cells]) for sweep in sweeps]


def _device(found: Record) -> str:
    """The device of one machine, as its cells saw it."""
    return canonical_json([found.cell.device, _place(found)])


def _place(found: Record) -> dict[str, object]:
    """Where a cell was measured: the machine, its software and the measuring code."""
    return {name: found.environment.get(name) for name in ("machine", "versions", "variables", "code")}


def read(folder: Path, costs: Mapping[Device, Cost] = MappingProxyType({})) -> Sweep:
    """The sweep in `folder`.

    Raises:
        UserError: its plan or one of the records that it names is not readable.
    """
    plan = plan_file.read_plan(folder)
    records = {found.name: found for found in plan_file.read_planned(folder)}
    return Sweep(
        folder=folder.resolve().name,
        suite=plan.suite,
        title=plan.title,
        study=plan.study,
        profile=plan.profile,
        cells=[
            ReportedCell(
                cell=wanted.cell,
                name=wanted.record_name,
                label=wanted.cell.label,
                record=records.get(wanted.record_name),
                costs=costs,
            )
            for wanted in plan.cells
        ],
    )
