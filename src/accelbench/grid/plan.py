"""Plans the cells of a sweep. Decides how their records are named, which are skipped here, and how long they take.

An estimate is the duration of the cell's latest run on this machine. If the cell has not run, it is the duration of the
cell with another batch size. If neither has run, it is the time that the cell's settings allow, such as
`window.measure_s`. They do not limit epochs, nor a number of steps.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from accelbench.data.arrays import check_arrays, how_to_prepare, read_counts, read_manifest
from accelbench.devices import interpreters
from accelbench.devices.registry import look
from accelbench.engines.images import Shape, shape_in
from accelbench.engines.registry import host_spec
from accelbench.errors import RefusedError, UserError
from accelbench.grid.fingerprint import fingerprint, git_state, identity, of_cell, own_files
from accelbench.grid.own_code import check_own_code, source_digest
from accelbench.grid.support import why_not, why_unfit
from accelbench.presentation import duration
from accelbench.project import MANIFEST, RECORD_FOLDERS, Workplace
from accelbench.schema.cell import MODULE, RANDOM, SERVING, Cell, Device, Engine, Mode, Protocol
from accelbench.schema.measurement import Data
from accelbench.schema.plan_file import WantedCell, labels, record_paths
from accelbench.schema.record import Record, read_all

REPEATED = frozenset({"seed", "repeat"})  # settings that do not change a cell's duration
# Cells that differ only in these settings take about as long; best first.
ALIKE = (REPEATED, REPEATED | {"batch_size"})
MAX_READ = 500  # newest records that are read; reading a record takes about 0.5 ms
START_S = 7.0  # to start a host, which imports the framework
FIXED_S = 1.2  # of a cell besides the start of its host and its windows
COMPILED_S = 20.0  # to compile a network with inductor


@dataclass(frozen=True)
class Planned(WantedCell):
    """A cell with the identity of its record. If `skip_reason` is not None, the cell is skipped."""

    identity: str = ""
    skip_reason: str | None = None

    @classmethod
    def of(cls, cell: Cell, identity: str, skip_reason: str | None, label: str) -> "Planned":
        """Returns the planned cell. The name of its record is the cell's id plus the beginning of the identity."""
        return cls(cell, f"{cell.id}-{identity[:8]}", label, identity=identity, skip_reason=skip_reason)


report_on = cache(look)  # the report on a device of this machine, made once per process


def skip_reason(cell: Cell) -> str | None:
    """Returns the reason why this machine skips the cell. Returns None if the cell runs."""
    driver = {}
    # The GPU's driver must fit the torch of this interpreter.
    if cell.python is not None and cell.device == Device.gpu:
        driver = {"torch_folder": Path(interpreters.look(cell.python).modules.get("torch", ""))}
    return why_not(cell, report_on(cell.device, **driver))


def why_skipped(cell: Cell, shape: Shape | None = None, num_train: int | None = None) -> str | None:
    """Returns why a sweep on this machine skips the cell, or None. See `why_unfit` for `shape` and `num_train`."""
    return why_unfit(cell, shape, num_train) or skip_reason(cell)


def in_order(planned: Iterable[Planned]) -> list[Planned]:
    """Returns the planned cells in the order in which they run.

    Every cell runs once before any cell is repeated. Therefore a slow change of the machine affects all cells alike.
    Within a repeat, trainings to a target (`protocol=target`) are sorted by their seeds.
    """
    return sorted(
        planned,
        key=lambda item: (item.cell.repeat, item.cell.seed if item.cell.protocol == Protocol.target else 0),
    )


def plan(
    cells: Iterable[Cell],
    data: Data,
    fingerprints: Mapping[Engine, Mapping[str, Any]],
    earlier: Sequence[WantedCell] = (),
    shape: Shape | None = None,
    num_train: int | None = None,
) -> list[Planned]:
    """Returns the planned `cells`, in the order of `plan_file.joined`. Equal cells have only one entry.

    See `why_unfit` for `shape` and `num_train`.
    """
    asked = {cell.id: cell for cell in cells}
    everything = {wanted.cell.id: wanted.cell for wanted in earlier} | asked
    reasons = {key: why_skipped(cell, shape, num_train) for key, cell in asked.items()}
    labelled = labels(everything.values()) | {wanted.cell.id: wanted.label for wanted in earlier}
    return [
        Planned.of(cell, identity(cell, data, fingerprints[cell.engine]), reasons[key], labelled[key])
        for key, cell in everything.items()
        if key in asked
    ]


@dataclass(frozen=True)
class Prepared:
    """A sweep that is ready to run."""

    place: Workplace  # the folders of the sweep
    data: Data  # the data set of all cells
    data_folder: Path  # folder of the data set's arrays
    fingerprints: Mapping[Engine, Mapping[str, Any]]  # engine -> its fingerprint
    git: Mapping[str, Any]  # the state of the checkout
    planned: list[Planned]  # the cells in the order of plan.json
    # the node and the job of a cluster; empty on a single machine
    node: Mapping[str, str] = field(default_factory=dict)

    def environment(self, cell: Cell) -> dict[str, Any]:
        """Returns the environment for the cell's record.

        It contains the fingerprint (machine, versions, variables, code), the digests of the user's files, the state of
        the git checkout, and the node if the cell runs on a cluster.
        """
        # If the cell has another interpreter, `home` has the machine and versions of accelbench's own environment.
        of_engine = self.fingerprints[cell.engine]
        home = {"home": {name: of_engine[name] for name in ("machine", "versions")}} if cell.python else {}
        environment = {**of_cell(cell, of_engine), **own_files(cell), **home, "git": self.git}
        return {**environment, "node": self.node} if self.node else environment

    def process(self, cell: Cell, label: str) -> Planned:
        """Plans one more process of the cell."""
        return Planned.of(cell, identity(cell, self.data, self.fingerprints[cell.engine]), None, label)

    def is_changed(self, cell: Cell, identity: str) -> bool:
        """Whether the cell has another identity now, because the user's code or weights changed."""
        source_digest.cache_clear()
        try:
            return self.process(cell, cell.label).identity != identity
        except UserError:  # a file of the user is gone
            return True


def check_request(cells: Sequence[Cell]) -> None:
    """Checks the request for a sweep.

    Raises UserError if `cells` have several data sets, if no cell fits its data, if the user's code is missing, or if
    the setting `python` is not an interpreter.

    This check needs no lock. Therefore it runs before accelbench waits for the end of another measurement.
    """
    data_name(cells)
    check_fits(cells)
    for python in dict.fromkeys(cell.python for cell in cells if cell.python is not None):
        interpreters.look(python)
    check_own_code(cells)


def check_fits(cells: Sequence[Cell], shape: Shape | None = None, num_train: int | None = None) -> None:
    """Raises UserError if no cell fits its data. See `why_unfit` for `shape` and `num_train`."""
    reasons = [why_unfit(cell, shape, num_train) for cell in cells]
    if all(reasons):
        raise UserError("; ".join(dict.fromkeys(map(str, reasons))))


def images_in(folder: Path) -> tuple[Shape | None, int | None]:
    """Returns the shape and the number of the training images in `folder`. Both are None if it has no images."""
    if folder.name in (MODULE, RANDOM) or not (folder / MANIFEST).exists():
        return None, None
    return shape_in(folder), read_counts(folder).get("train")


def data_name(cells: Sequence[Cell]) -> str:
    """Returns the name of the data set that all `cells` use. Raises UserError if they use several data sets."""
    models: dict[str, dict[str, None]] = {}
    for cell in cells:
        models.setdefault(cell.data.name, {})[cell.model.name] = None
    if len(models) != 1:
        listed = ", ".join(f"{name} ({', '.join(models[name])})" for name in sorted(models))
        raise UserError(
            f"data={','.join(sorted(models))}: a sweep has one data set; run one sweep for each: {listed}"
        )
    return next(iter(models))


def data_of(cells: Sequence[Cell], place: Workplace) -> tuple[Data, Path]:
    """Returns the data set that all `cells` use, and the folder of this data set.

    Raises UserError if the cells use several data sets, or if the data set is not prepared.
    """
    name = data_name(cells)
    folder = place.data / name
    if name == MODULE:
        return _of_module(cells), folder
    data = read_manifest(folder)
    if data.name != name:
        raise UserError(f"data={name}: {folder} holds {data.name}; {how_to_prepare(folder)}")
    return data, folder


def _of_module(cells: Sequence[Cell]) -> Data:
    """Describes the data of the user's DataModule or LightningModule.

    The digest covers the module's code, but neither its arguments nor its data.
    """
    sources = {cell.data.target or cell.model.definition for cell in cells}
    if len(sources) > 1:
        raise UserError(
            f"data.target={','.join(sorted(sources))}: a sweep has one data set; run one sweep for each"
        )
    (path,) = sources
    code = source_digest("data.target", path, Path.cwd())
    return Data(name=MODULE, digest=code, source=f"{path}, which nobody verified", stand_in=False)


def prepare(cells: Sequence[Cell], place: Workplace, earlier: Sequence[WantedCell] = ()) -> Prepared:
    """Plans `cells` for the data and the environment of this machine. Raises the same errors as `data_of`."""
    # In a notebook, the user's code and packages may change between two calls.
    interpreters.look.cache_clear()
    source_digest.cache_clear()
    data, folder = data_of(cells, place)
    if data.name not in (MODULE, RANDOM):
        check_arrays(folder)
    images = images_in(folder)
    check_fits(cells, *images)
    fingerprints = {engine: fingerprint(engine) for engine in {cell.engine for cell in cells}}
    planned = plan(cells, data, fingerprints, earlier, *images)
    return Prepared(place, data, folder, fingerprints, git_state(place.root), planned)


@dataclass(frozen=True)
class Length:
    """The estimated duration of one or more cells."""

    seconds: float = 0.0  # total of the cells whose duration is known
    num_unknown: int = 0  # number of cells whose duration is unknown

    def __add__(self, other: "Length") -> "Length":
        return Length(self.seconds + other.seconds, self.num_unknown + other.num_unknown)

    def __str__(self) -> str:
        """Returns the duration as text, such as `about 52 s`, or `about 40 s and 3 of unknown length`."""
        parts = []
        if self.seconds:
            parts.append(f"about {duration(max(1.0, self.seconds))}")
        if self.num_unknown:
            parts.append(f"{self.num_unknown} of unknown length")
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
    if cell.protocol != Protocol.window or cell.mode == Mode.generate:
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
