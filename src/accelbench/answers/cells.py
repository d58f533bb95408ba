"""Processes, and cells with one speed, which is computed from their processes. All answers are computed from these.

The report, the terminal and the Python interface show these numbers.

A cell has a process for each repeat and seed. If the cell has fewer than `MIN_PROCESSES` processes, its speed is their
median speed. Otherwise, its speed is the geometric mean of their speeds, as in `accelbench compare`.

More processes of a cell may run later, to confirm an answer. If there are at least `MIN_PROCESSES` of these, the speed
is computed from these only.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from accelbench.judging.costs import Cost, with_costs
from accelbench.judging.row import summarise, without_numbers
from accelbench.judging.verdict import DISTURBED, verdict_on
from accelbench.judging.warnings import was_beside_others
from accelbench.schema.cell import CHOSEN_SETTINGS, Cell, Device, Protocol, Provenance, Status
from accelbench.schema.measurement import Measurement
from accelbench.schema.record import CODE, PLACE, Record, Row
from accelbench.schema.serialize import changed, digest, grouped
from accelbench.stats.intervals import mean_interval
from accelbench.stats.order_statistics import median

MIN_PROCESSES = 5  # fewer processes of a cell do not show how much processes differ
NOT_RUN = "not run yet"
UNREADABLE = "not readable"
OLDER, WHY_OLDER = "older", "measured again later, with different code, weights or data"
# Settings that differ between the processes of one cell.
PROCESS_SETTINGS = ("repeat", "seed")
SAMPLES = ("warmup_s", "blocks", "latency_s", "launch_s", "data_s", "copy_in_s", "copy_out_s", "operators")
WITHOUT: Any = {"breakdown": None, **{name: [] for name in SAMPLES}}
# Columns of cells.csv: the key of the cell, and the number of processes from which its speed is computed.
CELL, NUM_PROCESSES = "cell", "num_processes"
COUNTS = "counts"  # a column of processes.csv: whether this process is used for the cell's speed
# Columns that grow with the speed, and columns that shrink with it.
WITH_SPEED = ("tokens_per_s", "flops_per_s", "mfu")
AGAINST_SPEED = ("cost_per_million_samples",)


@dataclass(frozen=True, kw_only=True)
class Process:
    """A planned process, with its record once there is one."""

    cell: Cell
    name: str  # of the record, `<cell_id>-<identity8>`
    label: str  # a short name, which no other process of its sweep has
    record: Record | None  # None if it has not run yet, or if its record can't be read
    problem: str | None = None  # why its record can't be read; None for a readable or missing record
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
    def verdict(self) -> tuple[str, str | None]:
        """The status of the record, `disturbed`, `not readable` or `not run yet`; and why, if it is known."""
        if self.record is None:
            return (UNREADABLE if self.problem else NOT_RUN), self.problem
        return verdict_on(self.record)

    @cached_property
    def rates(self) -> list[float]:
        """The samples/s of its steady blocks or epochs. Empty if its numbers can't be published."""
        return self.measurement.steady_rates if self.measurement and self.verdict[0] == Status.ok else []

    @cached_property
    def was_beside_others(self) -> bool:
        """Is true if other programs used the CPU during the measurement."""
        return self.record is not None and was_beside_others(self.record)

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
        return OLDER if self.is_older else str(self.verdict[0])

    @property
    def disturbed(self) -> str | None:
        """The load that disturbed an ok process, or None. Numbers of a disturbed process are not published."""
        return self.verdict[1] if self.verdict[0] == DISTURBED else None

    @property
    def reason(self) -> str | None:
        """Why the outcome is not `ok`. None if the outcome is `ok`, or if the process has not run yet."""
        return WHY_OLDER if self.is_older else self.verdict[1]

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

    def all_but(self, *settings: str) -> str:
        """Returns a digest of the data and of all settings except `settings`."""
        return digest([self.cell.key_without(settings), self.data_digest])

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
        return self.all_but(*CHOSEN_SETTINGS)

    @cached_property
    def place_key(self) -> str:
        """A key of the machine and of the packages in accelbench's own environment."""
        home = self.environment.get("home", self.environment)
        return digest([home.get("machine"), home.get("versions")])

    def _in_environment(self, names: Sequence[str]) -> list[object]:
        return [self.environment.get(name) for name in names]


# Properties that are computed from raw samples, or take long to compute; see `Process.without_samples`.
COMPUTED = [name for name, kept in vars(Process).items() if isinstance(kept, cached_property)]


@dataclass(frozen=True, kw_only=True)
class MeasuredCell(Process):
    """A cell, and its speed, which is computed from the processes in `counted`.

    The fields of `Process` are copied from the cell's typical process: the process whose speed is nearest to the cell's
    speed. If no process is ok, they are copied from a process that is not ok.

    `low` and `high` are the ends of the speed's 95 % interval. If the speed is a geometric mean, this is the interval
    of that mean. Otherwise, it spans the intervals of all processes in `counted`.
    """

    processes: Sequence[Process]  # all processes of the cell, from any folder, also those that are not ok
    counted: Sequence[Process] = ()  # the processes from which the speed is computed; empty if none is ok
    speed: float | None = None  # the published samples/s; None if none is ok
    low: float | None = None
    high: float | None = None

    @property
    def num_processes(self) -> int:
        """The number of processes from which the speed is computed."""
        return len(self.counted)

    @property
    def competes(self) -> bool:
        """Is true if answers compare the cell with others.

        Cells without a speed do not compete. The short cells that `best --serve` runs before its probes also do not.
        """
        return bool(self.speed) and not (self.record and self.record.of_search)

    @cached_property
    def row(self) -> Row:
        """The cell's row of `cells.csv`.

        It has the numbers of the typical process, except the speed and the numbers computed from the speed: these are
        the cell's.
        """
        row = super().row | {name: getattr(self.cell, name) for name in PROCESS_SETTINGS}
        if self.is_older:
            row = without_numbers(row)
        row |= {CELL: self.measured_key, NUM_PROCESSES: None}
        typical = row["samples_per_s"]
        if self.speed is None or not isinstance(typical, float):
            return row
        factors = dict.fromkeys(WITH_SPEED, self.speed / typical)
        factors |= dict.fromkeys(AGAINST_SPEED, typical / self.speed)
        for name, provenance in (("time_s", "time_provenance"), ("energy_j_per_sample", "energy_provenance")):
            if row[provenance] == Provenance.estimated:
                factors[name] = typical / self.speed
        for name, factor in factors.items():
            value = row[name]
            if isinstance(value, float):
                row[name] = value * factor
        row |= {"samples_per_s": self.speed, "samples_per_s_low": self.low, "samples_per_s_high": self.high}
        return row | {NUM_PROCESSES: self.num_processes}


def cells_of(processes: Iterable[Process]) -> list[MeasuredCell]:
    """Groups processes into cells. The processes may have any outcome, and may come from several sweeps.

    A process was either planned by a sweep, or run later to confirm an answer. Cells without a planned process are left
    out. If several sweeps planned a cell, the result has the cell once for each of these sweeps, with the same numbers.
    If cells differ only in code, weights or data, all of them except the latest are marked as older.
    """
    every = list(processes)
    keys = cell_keys(every)
    by_cell: dict[str, list[Process]] = defaultdict(list)
    for process, key in zip(every, keys, strict=True):
        by_cell[key].append(process)
    last = {key: max(of_cell, key=lambda process: process.started_at) for key, of_cell in by_cell.items()}
    for history in grouped(last, lambda key: last[key].history_key).values():
        *older, _ = sorted(history, key=lambda key: last[key].started_at)
        for key in older:
            by_cell[key] = [changed(process, is_older=True) for process in by_cell[key]]
    planned = [
        (process.folder, key) for process, key in zip(every, keys, strict=True) if not process.is_confirming
    ]
    return [_cell(folder, by_cell[key]) for folder, key in dict.fromkeys(planned)]


def process_rows(cells: Iterable[MeasuredCell]) -> Iterator[Row]:
    """Yields a row of `processes.csv` for each process of the cells, with the columns that `cells.csv` has."""
    for cell in cells:
        for process in cell.processes:
            if process.folder == cell.folder:
                yield process.row | {
                    CELL: cell.measured_key,
                    COUNTS: any(process is other for other in cell.counted),
                }


def cell_keys(processes: Sequence[Process]) -> list[str]:
    """Returns the key of each process's cell.

    A process that ended before it read its data has no data digest. It gets the key of the latest similar process that
    has one. If no process is similar, it gets its own `measured_key`. A similar process has the same settings, machine,
    packages and code. If the process has no record, a similar one has the same settings and folder.
    """
    key_of: dict[object, str] = {}
    for process in sorted(
        processes, key=lambda process: (process.data_digest is not None, process.started_at)
    ):
        if process.record is not None:
            key_of[process.ran_key] = key_of[process.folder, process.settings_key] = process.measured_key
    keys = []
    for process in processes:
        like = process.ran_key if process.record else (process.folder, process.settings_key)
        keys.append(
            process.measured_key
            if process.data_digest is not None
            else key_of.get(like, process.measured_key)
        )
    return keys


def _counted(of_cell: Sequence[Process]) -> list[Process]:
    """Returns the processes from which the cell's speed is computed.

    These are all ok processes. But if `MIN_PROCESSES` or more of them confirm an answer, only those are returned.
    """
    # A record may lie in two folders: where it was measured, and where it was merged.
    ok = {
        (process.name, process.started_at): process
        for process in of_cell
        if process.is_ok and process.number("samples_per_s")
    }
    confirming = [process for process in ok.values() if process.is_confirming]
    return confirming if len(confirming) >= MIN_PROCESSES else list(ok.values())


def _cell(folder: str, of_cell: Sequence[Process]) -> MeasuredCell:
    """Returns the cell as a part of the sweep in `folder`. It is ok only if a process in that folder is ok."""
    here = [process for process in of_cell if process.folder == folder and not process.is_confirming]
    ok = [process for process in here if process.is_ok]
    shown = next(iter(ok), None) or next((process for process in here if process.record is not None), here[0])
    typical, figures = shown, dict[str, Any]()
    counted = _counted(of_cell)
    if ok and counted:
        rates = [process.number("samples_per_s") or 0.0 for process in counted]
        speed, low, high = _speed(rates, counted)
        distances = [abs(math.log(rate / speed)) for rate in rates]
        typical = counted[distances.index(min(distances))]
        figures = {"counted": counted, "speed": speed, "low": low, "high": high}
    elif (
        ok and shown.cell.protocol == Protocol.target
    ):  # typical is the seed with the median time; a seed that did not reach the target counts as inf
        by_time = sorted(ok, key=lambda process: process.number("target_s") or math.inf)
        typical = by_time[len(by_time) // 2]
    named = {
        "cell": shown.cell,
        "label": shown.label,
        "words": shown.words,
        "folder": folder,
        "is_confirming": False,
    }
    made = object.__new__(MeasuredCell)
    # This copies the cached properties of the typical process, too.
    vars(made).update(vars(typical), **named, **figures, processes=of_cell)
    return made


def _speed(rates: Sequence[float], counted: Sequence[Process]) -> tuple[float, float | None, float | None]:
    """Returns the speed of a cell, and the ends of its interval. The ends are None if they are unknown."""
    if len(rates) >= MIN_PROCESSES:
        low, high = mean_interval(list(map(math.log, rates)))
        return geometric_mean(rates), math.exp(low), math.exp(high)
    ends = [process.number(f"samples_per_s_{end}") for process in counted for end in ("low", "high")]
    known = [value for value in ends if value is not None]
    if known != ends:
        return median(rates), None, None
    return median(rates), min(known), max(known)
