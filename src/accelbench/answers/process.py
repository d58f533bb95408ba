"""A planned process, its record, and the numbers of the record as a row. All answers are computed from processes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from accelbench.compare import record_sets
from accelbench.judging.costs import Cost, with_costs
from accelbench.judging.row import summarise, without_numbers
from accelbench.schema.cell import CHOSEN_SETTINGS, Cell
from accelbench.schema.measurement import Measurement
from accelbench.schema.record import CODE, PLACE, Record, Row
from accelbench.schema.serialize import changed, digest
from accelbench.schema.vocab import Device, Status

NOT_RUN = "not run yet"
UNREADABLE = "not readable"
OLDER, WHY_OLDER = "older", "measured again later, with different code, weights or data"
# Settings that differ between the processes of one cell.
PROCESS_SETTINGS = ("repeat", "seed")
SAMPLES = ("warmup_s", "blocks", "latency_s", "launch_s", "data_s", "copy_in_s", "copy_out_s", "operators")
WITHOUT: Any = {"breakdown": None, **{name: [] for name in SAMPLES}}


@dataclass(frozen=True, kw_only=True)
class Process:
    """A planned process, with its record once there is one."""

    cell: Cell
    name: str  # of the record, `<cell_id>-<identity8>`
    label: str  # a short name, which no other process of its sweep has
    record: Record | None  # None if it has not run yet, or if its record can't be read
    problem: str | None = None  # why its record can't be read; None if it can, or if there is none
    costs: Mapping[Device, Cost] = field(default_factory=dict)  # the user's prices and power of each device
    is_confirming: bool = False  # whether it ran interleaved with another cell, to decide which is faster
    is_older: bool = False  # whether its cell was measured again later, with other code, weights or data
    folder: str = ""  # of its sweep, as a report names it; may be empty
    path: Path | None = None  # where the record's file is or would be; None if that is unknown
    words: str = ""  # the words that asked for its cell; empty if unknown

    @classmethod
    def of(cls, record: Record, **known: Any) -> "Process":
        """The process that wrote `record`. `known` are other fields."""
        return cls(cell=record.cell, name=record.name, label=record.label, record=record, **known)

    def without_samples(self) -> "Process":
        """Returns a copy without the raw samples, which would fill the memory. Results computed from them are kept."""
        for name in COMPUTED:
            getattr(self, name)  # computes and caches the property; `changed` keeps cached properties
        record = self.record
        if record is not None:
            measured = record.measurement and changed(record.measurement, **WITHOUT)
            record = changed(record, measurement=measured, system=None)
        return changed(self, record=record, costs={})

    @cached_property
    def compared(self) -> record_sets.ComparedProcess | None:
        """The part of the record that a comparison needs. None if there is no record."""
        return record_sets.ComparedProcess.of(self.record) if self.record else None

    @property
    def command(self) -> str | None:
        """The command that measures the cell again. None if it is unknown."""
        return f"accelbench {self.words}" if self.words else None

    @property
    def environment(self) -> Mapping[str, Any]:
        """The environment of its record. Empty if there is no record."""
        return self.record.environment if self.record else {}

    @property
    def measurement(self) -> Measurement | None:
        """The measurement of its record. None if there is no record, or if the process ended before it measured."""
        return self.record.measurement if self.record else None

    @property
    def outcome(self) -> str:
        """The status of the record, or one of these: `older`, `disturbed`, `not readable`, `not run yet`."""
        if self.is_older:
            return OLDER
        if self.compared is not None:
            return str(self.compared.outcome)
        return UNREADABLE if self.problem else NOT_RUN

    @property
    def disturbed(self) -> str | None:
        """The load that disturbed an ok process, or None. Numbers of a disturbed process are not published."""
        return self.compared.disturbed if self.compared else None

    @property
    def reason(self) -> str | None:
        """Why the outcome is not `ok`. None if the outcome is `ok`, or if the process has not run yet."""
        if self.is_older:
            return WHY_OLDER
        return self.compared.reason if self.compared else self.problem

    @property
    def is_ok(self) -> bool:
        """Whether its numbers may be published."""
        return self.outcome == Status.ok

    @property
    def started_at(self) -> str:
        """When it started; empty if it has not run."""
        return self.record.started_at if self.record else ""

    def number(self, column: str) -> float | None:
        """The number in a column of `cells.csv`; None if unknown."""
        value = self.row[column]
        return None if value is None else float(value)

    @property
    def row(self) -> Row:
        """The process's row of `processes.csv`.

        If the process has not run yet, the row has only settings. If it is invalid or disturbed, the row has no
        numbers.
        """
        return self.own_row | ({"reason": WHY_OLDER} if self.is_older else {})

    @cached_property
    def own_row(self) -> Row:
        if self.record is not None:
            row = with_costs(summarise(self.record), self.costs)
            return without_numbers(row) if self.record.status == Status.invalid else row
        # The row of an empty record has all columns. The columns that describe a run are then emptied.
        _, _, identity = self.name.partition("-")
        run: Any = {"status": Status.skipped, "started_at": "", "wall_s": 0.0, "environment": {}}
        empty = Record(cell=self.cell, identity=identity, **run)
        return summarise(empty) | {"status": None, "reason": self.outcome, "started_at": None, "wall_s": None}

    def all_but(self, *settings: str) -> dict[str, object]:
        """Returns all settings and the data digest. Those named in `settings` are None.

        Two cells that differ only in `settings` therefore give equal dictionaries.
        """
        return self.cell.settings() | dict.fromkeys(settings) | {"data_digest": self.data_digest}

    @property
    def data_digest(self) -> str | None:
        """The digest of the data that the process read. None if it ended before it read data."""
        return self.record.data.digest if self.record and self.record.data else None

    @cached_property
    def settings_key(self) -> str:
        """A digest of the cell's settings. It ignores `PROCESS_SETTINGS`."""
        return digest(self.cell.settings() | dict.fromkeys(PROCESS_SETTINGS))

    @cached_property
    def history_key(self) -> str:
        """A digest of settings, machine, packages and environment variables. Code and data may differ."""
        return digest([self.settings_key, self._in_environment(PLACE)])

    @cached_property
    def ran_key(self) -> str:
        """A digest of settings, machine, packages, environment variables and code. Data may differ."""
        return digest([self.history_key, self._in_environment(CODE)])

    @cached_property
    def measured_key(self) -> str:
        """The key of the process's cell. Two processes have the same key if, and only if, they belong to one cell.

        Processes of one cell have the same settings except `PROCESS_SETTINGS`. They ran on one machine, or on equal
        nodes of a cluster, with equal packages, environment variables, data, measuring code, user's code and weights.
        """
        return digest([self.ran_key, self.data_digest])

    @cached_property
    def workload_key(self) -> str:
        """A key that is equal for cells that do the same work. It does not depend on their `CHOSEN_SETTINGS`."""
        return digest(self.all_but(*CHOSEN_SETTINGS))

    @cached_property
    def place_key(self) -> str:
        """A key of the machine and of the packages in accelbench's own environment."""
        home = self.environment.get("home", self.environment)
        return digest([home.get("machine"), home.get("versions")])

    def _in_environment(self, names: Sequence[str]) -> list[object]:
        return [self.environment.get(name) for name in names]


# Properties that are computed from raw samples, or take long to compute; see `Process.without_samples`.
COMPUTED = [name for name, kept in vars(Process).items() if isinstance(kept, cached_property)]
