"""How long cells will take, as the cells that were measured on this machine show, or that this is not known.

A cell's length is estimated as

    fixed + stretch x steps(step length),

where `expected_s` gives the seconds of all steps under the cell's protocol. All three come from finished cells whose
steps do the same work: the same model, data, engine, device, mode, precision and options.

- fixed: what such a cell took besides its steps, compilation included.
- stretch: how many times longer its steps took than expected, for example because noisy blocks were repeated; 1 for
  another protocol.
- step length: that of such a cell if it has the same batch. A batch k times as large takes at least as long, and at
  most k times as long; if a smaller and a larger batch were measured, both limits count.

That gives limits, the shortest and the longest. If cells of the same batch differ, the limits include all of them. If
other processes used the processor while a cell was measured, such a cell may take that much less without them, or that
much more with more of them.

If the work was never measured, cells of other models give the limits, as shares of their expected seconds: if there are
enough of the same engine, device, data set and protocol. Otherwise the limits are the windows' sum, and infinity.
"""

import bisect
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from datetime import datetime
from pathlib import Path
from statistics import fmean, median
from typing import Any

from accelbench.engines.registry import host_spec
from accelbench.measuring.breakdown import MAX_STEPS, MIN_STEPS
from accelbench.measuring.clock import BLOCK_MARGIN, MIN_SAMPLES, NUM_INFER_EPOCHS, STRETCH
from accelbench.presentation import duration
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
MIN_OTHERS, MAX_OTHERS = 3, 8  # other models that are enough, and how many cells of them count
MAX_READ = 500  # records of other cells that are read, the newest; reading one takes some .5 ms
# Records whose offsets (`_offset_s`) differ less are of one start of the machine: an export may take minutes.
SAME_START_S = 600.0
START_S = (0.0, 15.0)  # of a host, where no cell waited for one yet
IMPORT_S = 0.5  # a host that a cell waited for this long imported its framework, or exported a network

Limits = tuple[float, float]  # the shortest and the longest, in seconds


@dataclass(frozen=True)
class Length:
    """The limits of how long one or more cells will take."""

    shortest_s: float = 0.0
    longest_s: float = 0.0  # infinite if a cell's work was never measured
    num: int = 0  # of cells
    num_unknown: int = 0  # of those whose own length is not known
    num_new: int = 0  # of those whose work was never measured on this machine

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
        """As `str`, and how many cells are of unknown length, or why all are."""
        if self.estimate_s is not None:
            return str(self)
        if self.num_new == self.num_unknown == self.num:
            return f"{self} (nothing like {'it' if self.num == 1 else 'them'} was measured here yet)"
        return f"{self} ({self.num_unknown} cell{'s' * (self.num_unknown != 1)} of unknown length)"


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


def observed_s(measured: Measurement) -> float:
    """Seconds of the steps that were timed: warm-up, blocks, single steps, phases, epochs and evaluations."""
    phases = measured.breakdown
    phases_s = [] if phases is None else [*phases.undisturbed_s, *map(sum, phases.phases_s.values())]
    epochs_s = [epoch.seconds + (epoch.evaluation.seconds if epoch.evaluation else 0.0) for epoch in measured.epochs]
    blocks_s = [block.seconds for block in measured.blocks]
    return sum([measured.warmup_total_s, *blocks_s, *measured.latency_s, *phases_s, *epochs_s])


def step_s(cell: Cell, measured: Measurement) -> float | None:
    """Seconds of a step in the steady state; None if none was measured."""
    if measured.blocks:
        return sum(block.seconds for block in measured.blocks) / sum(block.num_steps for block in measured.blocks)
    if epochs := measured.steady_epochs:
        num_steps = sum(math.ceil(epoch.num_samples / cell.batch_size) for epoch in epochs)
        return sum(epoch.seconds for epoch in epochs) / num_steps
    return None


@dataclass(frozen=True, kw_only=True)
class Finished:
    """A finished cell, reduced to what others are estimated from: see above."""

    cell: Cell
    took_s: float  # from the start of its process to its outcome
    step_s: float  # of one step in the steady state
    fixed_s: float
    stretch: float
    free: float  # share of the processor that other processes left
    num_samples: tuple[int, int]  # in the training set and in the test set

    @classmethod
    def of(cls, record: Record, waited_s: float) -> "Finished | None":
        """What `record` shows; None if it measured nothing. The cell waited for its host or its network."""
        cell, measured = record.cell, record.measurement
        if measured is None or (one_s := step_s(cell, measured)) is None:
            return None
        took_s = record.wall_s - waited_s
        compile_s = max(0.0, (measured.first_step_s or 0.0) - one_s) if measured.blocks else measured.compile_s or 0.0
        steps_s = min(took_s, observed_s(measured) - compile_s + NUM_CHECK_STEPS[cell.mode] * one_s)
        num_samples = (measured.num_train_samples or 0, measured.num_test_samples or 0)
        expected = expected_s(cell, one_s, num_samples)
        if not (0.0 < expected < math.inf and 0.0 < steps_s < math.inf):  # of a record that was made up
            return None
        others = record.system.values.get("other_cpu_utilization_percent", []) if record.system else []
        percents = [percent for percent in others if percent is not None]
        num_threads = record.environment.get("machine", {}).get("num_threads")
        free = max(0.01, 1.0 - fmean(percents) / 100 / num_threads) if percents and num_threads else 1.0
        rest = {"fixed_s": took_s - steps_s, "stretch": steps_s / expected, "free": free}
        return cls(cell=cell, took_s=took_s, step_s=one_s, num_samples=num_samples, **rest)

    def limits_s(self, cell: Cell, steps_s: Limits) -> Limits:
        """The limits of `cell`, which does the same work, from those of its steps."""
        stretch = self.stretch if cell.protocol == self.cell.protocol else 1.0
        low, high = (self.fixed_s + stretch * expected_s(cell, one_s, self.num_samples) for one_s in sorted(steps_s))
        return self.free * low, high / self.free

    def limits_of_other_s(self, cell: Cell) -> Limits:
        """The limits of a cell of another model: what this one took of its scale."""
        scale_s, own_s = (
            expected_s(each, 0.0 if each.protocol == Protocol.window else 1.0, self.num_samples)
            for each in (cell, self.cell)
        )
        about_s = self.took_s / own_s * scale_s
        return self.free * about_s, about_s / self.free


@dataclass(frozen=True)
class Traits:
    """What the estimate of a cell depends on, besides its numbers of steps."""

    cell: Cell
    work: str  # equal for cells whose steps do the same work for each sample
    kind: str  # equal for cells of other models that may take about as long
    host: tuple[object, ...]  # equal for cells that are forked from the same host
    needs: tuple[object, ...]  # equal for cells that wait for the same host or export: only the first does

    @classmethod
    def of(cls, cell: Cell) -> "Traits":
        """The traits of a cell."""
        spec, backend = host_spec(cell), cell.keras and cell.keras.backend
        work = {name: value for name, value in cell.settings().items() if name not in COUNTS}
        kind = [cell.engine, backend, cell.device, cell.devices, cell.data.name, cell.protocol]
        return cls(cell, canonical_json(work), canonical_json(kind), spec.key, (*spec.key, spec.exported_as))


class Evidence:
    """What the finished cells of a machine show."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        found = sorted(records, key=lambda record: record.started_at)
        self._offsets_s = sorted(offset for record in found if (offset := _offset_s(record)) is not None)
        self._traits: dict[int, Traits] = {}  # by the cell's address, which is its own as long as it is kept here
        self._same_work: dict[str, dict[int, list[Finished]]] = defaultdict(lambda: defaultdict(list))
        self._others: dict[str, dict[tuple[str, int], Finished]] = defaultdict(dict)
        self._waits_s: dict[tuple[object, ...], list[float]] = defaultdict(list)
        for record in found:
            self._note(record)

    def add(self, record: Record) -> None:
        """Takes in what a further record shows."""
        if (offset := _offset_s(record)) is not None:
            bisect.insort(self._offsets_s, offset)
        self._note(record)

    def traits(self, cell: Cell) -> Traits:
        """The traits of `cell`. They are kept: a sweep estimates the cells to come again whenever one has finished."""
        if id(cell) not in self._traits:
            self._traits[id(cell)] = Traits.of(cell)
        return self._traits[id(cell)]

    def limits_s(self, cell: Cell) -> Limits:
        """The shortest and the longest time that `cell` may take, without the start of its host."""
        least_s = expected_s(cell, 0.0, (0, 0))
        shortest, longest = self._from_same_work(cell) or self._from_others(cell) or (least_s, math.inf)
        return max(shortest, least_s), max(longest, least_s)

    def has_same_work(self, cell: Cell) -> bool:
        """Whether a cell was measured whose steps do the same work."""
        return self.traits(cell).work in self._same_work

    def start_s(self, cell: Cell) -> Limits:
        """Seconds until the cell's process can start: its host imports the framework, and may export the network.

        A network that was never exported takes as long as the host's others.
        """
        traits = self.traits(cell)
        waits_s = self._waits_s.get(traits.needs) or self._waits_s.get(traits.host)
        return (median(waits_s[-NUM_LATEST:]),) * 2 if waits_s else START_S

    def _note(self, record: Record) -> None:
        waited_s, offset_s = 0.0, _offset_s(record)
        if offset_s is not None:  # other cells since the machine started did not wait
            first = self._offsets_s[bisect.bisect_left(self._offsets_s, offset_s - SAME_START_S)]
            waited_s = min(offset_s - first, record.wall_s)
        if (finished := Finished.of(record, waited_s)) is None:
            return
        cell, traits = finished.cell, Traits.of(finished.cell)
        self._same_work[traits.work][cell.batch_size].append(finished)
        self._others[traits.kind].pop((traits.work, cell.batch_size), None)  # the latest comes last
        self._others[traits.kind][traits.work, cell.batch_size] = finished
        if waited_s > IMPORT_S:
            for key in (traits.host, traits.needs):
                self._waits_s[key].append(waited_s)

    def _from_same_work(self, cell: Cell) -> Limits | None:
        batches, size = self._same_work.get(self.traits(cell).work), cell.batch_size
        if not batches:
            return None
        smaller, larger = ([each for each in batches if sign * each <= sign * size] for sign in (1, -1))
        nearest = [*([max(smaller)] if smaller else []), *([min(larger)] if larger else [])]
        shortest, longest = 0.0, math.inf  # of a step
        for batch in nearest:
            low, high = sorted((1.0, size / batch))
            steps_s = [finished.step_s for finished in _latest(batches[batch], cell.protocol)]
            shortest, longest = max(shortest, low * min(steps_s)), min(longest, high * max(steps_s))
        like = _latest(batches[min(nearest, key=lambda batch: abs(math.log(batch / size)))], cell.protocol)
        return _around(finished.limits_s(cell, (shortest, longest)) for finished in like)

    def _from_others(self, cell: Cell) -> Limits | None:
        latest = list(self._others.get(self.traits(cell).kind, {}).values())[-MAX_OTHERS:]
        if len({finished.cell.model.name for finished in latest}) < MIN_OTHERS:
            return None
        return _around(finished.limits_of_other_s(cell) for finished in latest)


def _latest(finished: Sequence[Finished], protocol: Protocol) -> Sequence[Finished]:
    return ([each for each in finished if each.cell.protocol == protocol] or finished)[-NUM_LATEST:]


def _around(limits: Iterable[Limits]) -> Limits:
    lows, highs = zip(*limits, strict=True)
    return min(lows), max(highs)


def _offset_s(record: Record) -> float | None:
    """The start of the cell's process, by the clock since the machine started, minus the request's time of day.

    Since the machine started, all records have the same offset, except for the time that a cell waited for its host.
    """
    if record.system is None or record.system.started_boot_s is None:
        return None
    return record.system.started_boot_s - datetime.fromisoformat(record.started_at).timestamp()


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


def length_of(cell: Cell, evidence: Evidence, start_s: Limits = (0.0, 0.0)) -> Length:
    """How long `cell` takes, see `evidence`, after it has waited for `start_s`."""
    shortest_s, longest_s = (limit + start for limit, start in zip(evidence.limits_s(cell), start_s, strict=True))
    is_unknown = Length(shortest_s, longest_s).estimate_s is None
    return Length(shortest_s, longest_s, 1, int(is_unknown), int(not evidence.has_same_work(cell)))


def lengths(cells: Iterable[Cell], evidence: Evidence, started: Collection[Cell] = ()) -> list[Length]:
    """How long each of `cells` takes, one after another.

    The first cell of a host waits for its start, and the first one of an exported network for the export, unless cells
    that need the same have `started`.
    """
    ready = {evidence.traits(cell).needs for cell in started}
    found = []
    for cell in cells:
        needs = evidence.traits(cell).needs
        found.append(length_of(cell, evidence, (0.0, 0.0) if needs in ready else evidence.start_s(cell)))
        ready.add(needs)
    return found


def total(cells: Iterable[Cell], evidence: Evidence, started: Collection[Cell] = ()) -> Length:
    """How long all `cells` take; see `lengths`."""
    return sum(lengths(cells, evidence, started), Length())
