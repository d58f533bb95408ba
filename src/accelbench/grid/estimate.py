"""Estimates how long cells will take.

An estimate is the duration of the cell's latest run on this machine. If the cell has not run, it is the duration of the
cell with another batch size. If neither has run, it is the time that the cell's settings allow, such as
`window.measure_s`. They do not limit epochs, nor a number of steps.
"""

from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from accelbench.engines.registry import host_spec
from accelbench.errors import RefusedError
from accelbench.grid.fingerprint import fingerprint
from accelbench.presentation import counted, duration
from accelbench.project import RECORD_FOLDERS
from accelbench.schema.cell import SERVING, Cell, Engine, Protocol
from accelbench.schema.plan_file import record_paths
from accelbench.schema.record import Record, read_all

REPEATED = frozenset({"seed", "repeat"})  # settings that do not change a cell's duration
ALIKE = (REPEATED, REPEATED | {"batch_size"})  # cells that differ only in these settings take about as long; best first
MAX_READ = 500  # newest records that are read; reading a record takes about 0.5 ms
START_S = 7.0  # to start a host, which imports the framework
FIXED_S = 1.2  # of a cell besides the start of its host and its windows
COMPILED_S = 20.0  # to compile a network with inductor


@dataclass(frozen=True)
class Length:
    """The estimated duration of one or more cells."""

    seconds: float = 0.0  # total of the cells whose duration is known
    num_unknown: int = 0  # number of cells whose duration is unknown

    def __add__(self, other: "Length") -> "Length":
        return Length(self.seconds + other.seconds, self.num_unknown + other.num_unknown)

    def __str__(self) -> str:
        """Returns the duration as text, such as `about 52 s`, or `about 40 s and 3 cells of unknown length`."""
        parts = []
        if self.seconds:
            parts.append(f"about {duration(max(1.0, self.seconds))}")
        if self.num_unknown:
            parts.append(f"{counted(self.num_unknown, 'cell')} of unknown length")
        return " and ".join(parts) or "0 s"


class Evidence:
    """The durations of finished cells."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self._took_s: dict[str, float] = {}  # key of a cell (see `ALIKE`) -> seconds of its latest process
        for record in sorted(records, key=lambda record: record.started_at):
            self.add(record)

    def add(self, record: Record) -> None:
        """Adds the duration of the record's process. `wall_s` also includes the wait for its host."""
        if record.measurement is None:
            return
        times_s = record.system.t_s if record.system is not None else []
        for settings in ALIKE:
            self._took_s[record.cell.key_without(settings)] = times_s[-1] if times_s else record.wall_s

    def length(self, cell: Cell, waits: bool = False) -> Length:
        """Returns the duration of `cell`. If `waits` is true, it includes the start of the cell's host process."""
        keys = [cell.key_without(settings) for settings in ALIKE]
        known_s = [self._took_s[key] for key in keys if key in self._took_s]
        took_s = known_s[0] if known_s else allowed_s(cell)
        if took_s is None:
            return Length(num_unknown=1)
        return Length(min(took_s, cell.timeout_s) + (START_S if waits else 0.0))


def allowed_s(cell: Cell) -> float | None:
    """Returns the seconds that a cell takes by its settings. Returns None if they do not limit its time."""
    fixed_s = FIXED_S
    if cell.options.compile or cell.engine == Engine.aotinductor:
        fixed_s += COMPILED_S
    if cell.protocol in SERVING:
        return fixed_s + cell.server.duration_s
    if cell.protocol != Protocol.window:
        return None
    window = cell.window
    windows_s = window.warmup_s + window.measure_s + window.latency_s + cell.breakdown_s
    return fixed_s + min(windows_s, cell.budget_s or windows_s)


def read_evidence(root: Path) -> Evidence:
    """Returns the evidence in the newest records of this machine that the project in `root` has."""
    machine = fingerprint(Engine.pytorch)["machine"]
    paths = []
    for folder in RECORD_FOLDERS:
        with suppress(RefusedError):  # an estimate is not worth a failed sweep
            paths += record_paths(root / folder)
    newest = read_all(sorted(filter(Path.exists, paths), key=lambda path: path.stat().st_mtime)[-MAX_READ:])
    of_all = ((record, record.environment.get("home", record.environment)) for record in newest)
    return Evidence(record for record, home in of_all if home.get("machine") == machine)


def lengths(cells: Iterable[Cell], evidence: Evidence, started: Collection[Cell] = ()) -> list[Length]:
    """Returns the duration of each cell, in order. Host processes of the cells in `started` already run.

    Of the cells that use the same host, only the first waits for the host's start.
    """
    ready = {host_spec(cell).key for cell in started}
    in_turn = []
    for cell in cells:
        key = host_spec(cell).key
        in_turn.append(evidence.length(cell, waits=key not in ready))
        ready.add(key)
    return in_turn


def total(cells: Iterable[Cell], evidence: Evidence, started: Collection[Cell] = ()) -> Length:
    """The duration of all `cells` together; see `lengths`."""
    return sum(lengths(cells, evidence, started), Length())
