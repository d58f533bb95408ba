"""How long cells will take, as the cells that were measured on this machine show, or that this is not known.

A cell takes a fixed time, its compilation included, and that of its steps (`expected_s`). Both come from finished cells
whose steps do the same work: the same model, data, engine, device, mode, precision and options. With a batch k times as
large, a step takes at least as long, and at most k times as long. If no such cell was measured, the windows are the
shortest time, and the longest is infinite.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from accelbench.engines.registry import host_spec
from accelbench.measuring.breakdown import MAX_STEPS, MIN_STEPS
from accelbench.measuring.clock import BLOCK_MARGIN, MIN_SAMPLES, NUM_INFER_EPOCHS, STRETCH
from accelbench.presentation import counted, duration
from accelbench.project import RECORD_FOLDERS, RECORDS
from accelbench.schema.cell import Cell
from accelbench.schema.measurement import Measurement
from accelbench.schema.record import Record, read_all
from accelbench.schema.serialize import canonical_json
from accelbench.schema.vocab import Mode, Protocol

FACTOR = 1.5  # an estimate is at most this many times too long or too short
WARMUP_STRETCH = 1.6  # a warm-up of slow steps settles after this many times its minimum of steps
# Steps after the timed ones: they count the work and, in inference, show what the outputs are.
NUM_CHECK_STEPS = {Mode.infer: 5, Mode.train: 1}
EVALUATION = 1 / 3  # the time of an evaluated sample, as a share of a trained one: it has no backward pass
# Settings that change how many steps are run, but not what a step does for a sample.
COUNTS = {"batch_size", "scaling", "protocol", "window", "warmup", "steps", "epochs", "breakdown_s", "seed", "repeat"}
NUM_LATEST = 3  # of the cells of one batch, the latest count
MAX_READ = 500  # records of other cells that are read, the newest; reading one takes some .5 ms
START_S = (0.0, 15.0)  # of a host, where no cell waited for one yet
WAITED_S = 1.5  # a cell that waited longer has waited for its host, which imports the framework or exports the network

Limits = tuple[float, float]  # the shortest and the longest, in seconds


@dataclass(frozen=True)
class Length:
    """The limits of how long one or more cells will take."""

    shortest_s: float = 0.0
    longest_s: float = 0.0  # infinite if a cell's work was never measured
    num: int = 0  # of cells
    num_unknown: int = 0  # of those whose own length is not known

    @property
    def estimate_s(self) -> float | None:
        """The middle of the limits, from which both are at most `FACTOR` away; None if they are further apart."""
        is_known = self.longest_s <= FACTOR**2 * self.shortest_s
        return math.sqrt(self.shortest_s * self.longest_s) if is_known else None

    def __add__(self, other: "Length") -> "Length":
        return Length(*map(sum, zip(astuple(self), astuple(other), strict=True)))

    def __str__(self) -> str:
        """Such as `about 52 s`, `at least 40 s` or `unknown time`."""
        if self.estimate_s is not None:
            return f"about {duration(max(1.0, self.estimate_s))}" if self.num else "0 s"
        return f"at least {duration(self.shortest_s)}" if self.shortest_s >= 1.0 else "unknown time"

    @property
    def text(self) -> str:
        """As `str`, and how many cells are of unknown length."""
        return (
            str(self)
            if self.estimate_s is not None
            else f"{self} ({counted(self.num_unknown, 'cell')} of unknown length)"
        )


def expected_s(cell: Cell, step_s: float, num_samples: tuple[int, int]) -> float:
    """Seconds that all steps of `cell` take, on a machine without other load.

    `num_samples`: in the training set and in the test set.
    """
    others_s = NUM_CHECK_STEPS[cell.mode] * step_s
    if cell.protocol == Protocol.fit:
        num_train, num_test = num_samples
        num = cell.epochs * (num_train + EVALUATION * num_test)
        return (num if cell.mode == Mode.train else NUM_INFER_EPOCHS * num_test) / cell.batch_size * step_s + others_s
    if cell.breakdown_s:
        others_s += max(2 * MIN_STEPS * step_s, min(cell.breakdown_s, 2 * MAX_STEPS * step_s))
    if cell.protocol == Protocol.steps:
        return (cell.warmup + 2 * cell.steps) * step_s + others_s
    window = cell.window
    warmup_s = max(window.warmup_s, WARMUP_STRETCH * window.warmup_steps * step_s)
    few_blocks_s = MIN_SAMPLES * max(BLOCK_MARGIN * window.block_s, step_s)
    blocks_s = max(window.measure_s, step_s, min(few_blocks_s, STRETCH * window.measure_s))
    few_steps_s = min(MIN_SAMPLES * step_s, STRETCH * window.latency_s)
    single_s = min(window.latency_steps * step_s, max(window.latency_s, step_s, few_steps_s))
    return warmup_s + blocks_s + single_s + others_s


def steady_step_s(cell: Cell, measured: Measurement) -> float | None:
    """Seconds of a step in the steady state; None if none was measured."""
    if measured.blocks:
        return sum(block.seconds for block in measured.blocks) / sum(block.num_steps for block in measured.blocks)
    if epochs := measured.steady_epochs:
        num_steps = sum(math.ceil(epoch.num_samples / cell.batch_size) for epoch in epochs)
        return sum(epoch.seconds for epoch in epochs) / num_steps
    return None


@dataclass(frozen=True)
class Finished:
    """A finished cell, reduced to what others are estimated from."""

    step_s: float  # of one step in the steady state
    fixed_s: float
    num_samples: tuple[int, int]  # in the training set and in the test set


class Evidence:
    """What the finished cells of a machine show."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        # By the work of a step and the batch.
        self._finished: dict[str, dict[int, list[Finished]]] = defaultdict(lambda: defaultdict(list))
        self._start_s: dict[tuple[object, ...], Limits] = {}  # by what a cell waits for, the latest
        for record in sorted(records, key=lambda record: record.started_at):
            self.add(record)

    def add(self, record: Record) -> None:
        """Takes in what a further record shows."""
        cell, measured = record.cell, record.measurement
        if measured is None or not (step_s := steady_step_s(cell, measured)):
            return
        waited_s = _waited_s(record, measured)
        num_samples = (measured.num_train_samples or 0, measured.num_test_samples or 0)
        fixed_s = max(0.0, record.wall_s - waited_s - expected_s(cell, step_s, num_samples))
        self._finished[_work(cell)][cell.batch_size].append(Finished(step_s, fixed_s, num_samples))
        if waited_s:
            self._start_s[needs(cell)] = waited_s, waited_s

    def limits_s(self, cell: Cell, waits: bool = False) -> Limits:
        """The shortest and the longest time that `cell` may take.

        With `waits`, its host imports the framework first, and may export the network.
        """
        start_s = self._start_s.get(needs(cell), START_S) if waits else (0.0, 0.0)
        least_s, size, batches = expected_s(cell, 0.0, (0, 0)), cell.batch_size, self._finished.get(_work(cell))
        if not batches:  # the place for an estimate from the work of a step and the device's ceilings
            return start_s[0] + least_s, math.inf
        nearest = min(batches, key=lambda batch: abs(math.log(batch / size)))
        found = [
            each.fixed_s + expected_s(cell, longer * each.step_s, each.num_samples)
            for each in batches[nearest][-NUM_LATEST:]
            for longer in (1.0, size / nearest)
        ]
        return start_s[0] + max(min(found), least_s), start_s[1] + max(*found, least_s)


def needs(cell: Cell) -> tuple[object, ...]:
    """Equal for cells that wait for the same host or export: only the first of them does."""
    spec = host_spec(cell)
    return *spec.key, spec.exported_as


def _work(cell: Cell) -> str:
    """Equal for cells whose steps do the same work for each sample."""
    return canonical_json({name: value for name, value in cell.settings().items() if name not in COUNTS})


def _waited_s(record: Record, measured: Measurement) -> float:
    """Seconds that a cell waited for its host, about: what neither its samples nor what came after them explain."""
    if record.system is None or not record.system.t_s:
        return 0.0
    phases = measured.breakdown
    phases_s = sum([*phases.undisturbed_s, *map(sum, phases.phases_s.values())]) if phases else 0.0
    waited_s = record.wall_s - record.system.t_s[-1] - (measured.checks_s or 0.0) - phases_s
    return waited_s if waited_s > WAITED_S else 0.0


def read_evidence(root: Path, machine: Mapping[str, Any], cell_ids: Collection[str] = ()) -> Evidence:
    """The evidence of the records of the project in `root`; those of another machine do not count.

    Of the cells that are to be estimated, `cell_ids`, all records are read.
    """

    def modified_s(path: Path) -> float:
        try:
            return path.stat().st_mtime
        except OSError:
            return 0.0

    paths = {path for folder in RECORD_FOLDERS for path in (root / folder).rglob(RECORDS)}
    own = {path for path in paths if path.name.partition("-")[0] in cell_ids}
    newest = sorted(paths - own, key=modified_s)[-MAX_READ:]
    return Evidence(each for each in read_all([*own, *newest]) if each.environment.get("machine") == machine)


def lengths(cells: Iterable[Cell], evidence: Evidence, started: Collection[Cell] = ()) -> list[Length]:
    """How long each of `cells` takes, one after another; only the first that `needs` what none has `started` waits."""
    ready, found = {needs(cell) for cell in started}, []
    for cell in cells:
        shortest_s, longest_s = evidence.limits_s(cell, waits=needs(cell) not in ready)
        is_unknown = Length(shortest_s, longest_s).estimate_s is None
        found.append(Length(shortest_s, longest_s, 1, int(is_unknown)))
        ready.add(needs(cell))
    return found


def total(cells: Iterable[Cell], evidence: Evidence, started: Collection[Cell] = ()) -> Length:
    """How long all `cells` take; see `lengths`."""
    return sum(lengths(cells, evidence, started), Length())
