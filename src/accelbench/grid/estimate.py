"""How long cells will take, about.

A cell takes the start of its host, a fixed time, and that of its steps (`expected_s`). Where cells that do the same
work were measured on this machine, the fixed time and that of a step are theirs. Elsewhere a step takes as long as the
work of its network at the device's ceilings, divided by the share of them that networks reach (`SHARE`): within a
factor of 2 for most networks, as docs/sweeps.md says. Work that nobody counted, such as that of the user's own network
before it was checked, leaves a cell of unknown length.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from accelbench.engines.registry import host_spec
from accelbench.measuring.breakdown import MAX_STEPS, MIN_STEPS
from accelbench.measuring.clock import BLOCK_MARGIN, EARLY_S, LEAST_WARMUP, MIN_SAMPLES, NUM_INFER_EPOCHS, STRETCH
from accelbench.presentation import counted, duration
from accelbench.project import RECORD_FOLDERS
from accelbench.schema.ceilings import Ceilings, ceilings_in
from accelbench.schema.cell import Cell, Options
from accelbench.schema.measurement import Measurement, Work
from accelbench.schema.plan_file import record_paths
from accelbench.schema.record import Record, read_all
from accelbench.schema.serialize import canonical_json, plain
from accelbench.schema.vocab import (
    EPOCHS,
    QUANTIZED,
    RANDOM,
    SERVING,
    SHARE_ONE_CPU,
    Device,
    Engine,
    Mode,
    Pipeline,
    Precision,
    Protocol,
    Span,
    Weights,
)
from accelbench.schema.workload import DataSpec
from accelbench.serving.server import ONE_AT_A_TIME

WARMUP_STRETCH = 1.6  # a warm-up of slow steps settles after this many times its minimum of steps
# Steps after the timed ones: they count the work and, in inference, show what the outputs are. So many are expected;
# a cell keeps the time of `clock.NUM_CHECK_STEPS` free.
NUM_CHECK_STEPS = {Mode.infer: 5, Mode.train: 1, Mode.generate: 5}
EVALUATION = 1 / 3  # the time of an evaluated sample, as a share of a trained one: it has no backward pass
# Settings that change how many steps are run, but not what a step does for a sample.
COUNTS = {
    *("batch_size", "scaling", "protocol", "window", "warmup", "steps", "epochs", "breakdown_s", "budget_s"),
    *("server", "target", "seed", "repeat"),
}
NUM_LATEST = 3  # of the cells of one batch, the latest count
MAX_READ = 500  # records that are read, the newest; reading one takes some .5 ms
START_S = 7.0  # of a host, where no cell waited for one yet
FIXED_S = 1.2  # of a cell besides its start and its steps
COMPILED_S = 20.0  # to compile a network with inductor
QUANTIZED_S = 15.0  # to quantise an exported network
DECODERS_S = 8.0  # to start the processes that decode pictures
# The share of the ceilings that networks reach on a CPU; each is the mean of what the suites of params.yaml showed on
# two machines: with AVX-512 it was a quarter more, with AVX2 a fifth less.
SHARE = {Engine.pytorch: 0.4, Engine.lightning: 0.4, Engine.keras: 0.68}
SHARE_EXPORTED = 1.0
CORE_BYTES_PER_S = 16e9  # that a core moves of a network's tensors, however fast the memory is when read in a row
WIDTHS = {Precision.fp64: 2.0, Precision.fp16: 0.5, Precision.bf16: 0.5, Precision.int8: 0.25}  # against fp32's
LAUNCHES = 2.0  # the time of an operator that computes little, in launches as the probe times them
WAITED_S = 1.5  # a cell that waited longer has waited for its host, which imports the framework or exports the network


@dataclass(frozen=True)
class Length:
    """How long one or more cells will take, about."""

    seconds: float = 0.0  # without those of unknown length
    num: int = 0  # of cells
    num_unknown: int = 0  # of those of unknown length
    start_s: float = 0.0  # of all seconds: until the framework is imported, and the network exported

    def __add__(self, other: "Length") -> "Length":
        return Length(*map(sum, zip(astuple(self), astuple(other), strict=True)))

    def __str__(self) -> str:
        """Such as `about 52 s`, or `about 40 s and 3 cells of unknown length`."""
        if not self.num:
            return "0 s"
        known = [f"about {duration(max(1.0, self.seconds))}"] if self.seconds or not self.num_unknown else []
        unknown = [f"{counted(self.num_unknown, 'cell')} of unknown length"] if self.num_unknown else []
        return " and ".join(known + unknown)


def expected_s(cell: Cell, step_s: float, num_samples: tuple[int, int]) -> float:
    """Seconds of all steps of `cell` on a free machine; `num_samples`: in the training set and in the test set."""
    others_s = NUM_CHECK_STEPS[cell.mode] * step_s
    if cell.protocol in EPOCHS:  # of a target at most: it may arrive before
        num_train, num_test = num_samples
        held_out = cell.target.validation * num_train / cell.target.every if cell.protocol == Protocol.target else 0.0
        num = cell.epochs * (num_train + EVALUATION * (num_test + held_out))
        return (num if cell.mode == Mode.train else NUM_INFER_EPOCHS * num_test) / cell.batch_size * step_s + others_s
    if cell.protocol in SERVING:
        _, least = ONE_AT_A_TIME.get(cell.protocol, (1, 0))
        return max(cell.server.duration_s, least * step_s) + LEAST_WARMUP * step_s + others_s
    if cell.breakdown_s:
        others_s += max(2 * MIN_STEPS * step_s, min(cell.breakdown_s, 2 * MAX_STEPS * step_s))
    least_s = (LEAST_WARMUP + MIN_SAMPLES + NUM_CHECK_STEPS[cell.mode]) * step_s
    most_s = max(cell.budget_s, least_s) if cell.budget_s else math.inf
    return min(most_s, _measured_s(cell, step_s) + others_s)


def _measured_s(cell: Cell, step_s: float) -> float:
    """Seconds of the warm-up and of the measured steps of a cell without a budget."""
    if cell.protocol == Protocol.steps:
        # Fewer of them where the speed is known before.
        steps_s = min(cell.steps * step_s, STRETCH * max(EARLY_S, MIN_SAMPLES * step_s))
        return cell.warmup * step_s + steps_s
    window = cell.window
    warmup_s = max(window.warmup_s, WARMUP_STRETCH * window.warmup_steps * step_s)
    few_blocks_s = MIN_SAMPLES * max(BLOCK_MARGIN * window.block_s, step_s)
    blocks_s = max(window.measure_s, step_s, min(few_blocks_s, STRETCH * window.measure_s))
    few_steps_s = min(MIN_SAMPLES * step_s, STRETCH * window.latency_s)
    single_s = min(window.latency_steps * step_s, max(window.latency_s, step_s, few_steps_s))
    return warmup_s + blocks_s + single_s


def steady_step_s(cell: Cell, measured: Measurement) -> float | None:
    """Seconds of a step in the steady state; None if none was measured."""
    if measured.blocks:
        return sum(block.seconds for block in measured.blocks) / sum(block.num_steps for block in measured.blocks)
    if epochs := measured.steady_epochs:
        num_steps = sum(math.ceil(epoch.num_samples / cell.batch_size) for epoch in epochs)
        return sum(epoch.seconds for epoch in epochs) / num_steps
    if measured.target is not None and measured.target.evaluations:
        trained_s = sum(each.seconds for each in measured.target.log if each.span == Span.train)
        return trained_s / measured.target.evaluations[-1].num_steps
    return None


@dataclass(frozen=True)
class Finished:
    """A finished cell, reduced to what others are estimated from."""

    step_s: float  # of one step in the steady state
    fixed_s: float
    num_samples: tuple[int, int]  # in the training set and in the test set


@dataclass(frozen=True)
class Inputs:
    """What is known of a data set before it is prepared."""

    num_samples: tuple[int, int]  # in the training set and in the test set
    shape: tuple[int, ...]  # of an image, channels first; empty if unknown
    num_classes: int


class Evidence:
    """What tells how long cells take on a machine: finished cells, ceilings of its devices, work of networks."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self.ceilings: dict[Device, Ceilings] = {}
        self.inputs: dict[str, Inputs] = {}  # by the name of a data set
        # By the work of a step and the batch.
        self._finished: dict[str, dict[int, list[Finished]]] = defaultdict(lambda: defaultdict(list))
        # By network and batch, of a step in fp32: operations, bytes and operators.
        self._works: dict[str, dict[int, Sequence[int]]] = defaultdict(dict)
        self._start_s: dict[tuple[object, ...], float] = {}  # by what a cell waits for, the latest
        for record in sorted(records, key=lambda record: record.started_at):
            self.add(record)

    def add(self, record: Record) -> None:
        """Takes in what a further record shows."""
        cell, measured = record.cell, record.measurement
        if measured is None or not (step_s := steady_step_s(cell, measured)):
            return
        waited_s = _waited_s(record)
        num_samples = (measured.num_train_samples or 0, measured.num_test_samples or 0)
        fixed_s = max(0.0, record.wall_s - waited_s - expected_s(cell, step_s, num_samples))
        self._finished[_work(cell)][cell.batch_size].append(Finished(step_s, fixed_s, num_samples))
        if waited_s:
            self._start_s[needs(cell)] = waited_s
        if (found := ceilings_in(record.environment)) is not None:
            self.ceilings[cell.device] = found
        if (work := measured.work) is not None:
            self.learn(cell, replace(work, bytes=work.bytes and round(work.bytes / _width(cell))))

    def learn(self, cell: Cell, work: Work | None) -> None:
        """Takes in the work of one step of the cell's network in fp32, if all of it was counted."""
        counts = [] if work is None else [work.flops, work.bytes, work.num_operators]
        if len(known := [each for each in counts if each is not None]) == 3:
            self._works[_network(cell)][cell.batch_size] = known

    def unmeasured(self, cells: Iterable[Cell]) -> list[Cell]:
        """Those whose work no finished cell shows, but without the user's code, which runs only where a cell does."""
        return [cell for cell in cells if not cell.own_code and _work(cell) not in self._finished]

    def roughness(self, cells: Iterable[Cell]) -> str:
        """Such as `rough: not checked on gpu`, if the time of some cells is only known by such shares; else empty."""
        unchecked = sorted({cell.device for cell in self.unmeasured(cells)} - {Device.cpu})
        return f"rough: not checked on {', '.join(unchecked)}" if unchecked else ""

    def uncounted(self, cells: Iterable[Cell]) -> list[Cell]:
        """Of each network among `cells` whose work is unknown, those with the smallest and with the largest batch."""
        batches: dict[str, dict[int, Cell]] = defaultdict(dict)
        for cell in cells:
            if cell.mode != Mode.generate and (key := _network(cell)) not in self._works:  # its tokens are too many
                batches[key][cell.batch_size] = cell
        return [each[size] for each in batches.values() for size in sorted({min(each), max(each)})]

    def counted_as(self, cell: Cell) -> Cell:
        """The cell whose work is counted in place of `cell`: the same network in fp32 in PyTorch, of random images."""
        model = replace(cell.model, weights=Weights.none.value)
        if (inputs := self.inputs.get(cell.data.name)) and inputs.shape:
            model = replace(model, input_shape=inputs.shape, num_classes=inputs.num_classes)
        data, engine = DataSpec(name=RANDOM, pipeline=Pipeline.host), Engine.pytorch
        cell = replace(cell, model=model, data=data, engine=engine, keras=None, device=Device.cpu, devices=1)
        return replace(cell, precision=Precision.fp32, options=Options(), threads=None)

    def length(self, cell: Cell, waits: bool = False) -> Length:
        """How long `cell` takes. With `waits`, its host imports the framework first, and may export the network."""
        start_s, size = self._start_s.get(needs(cell), START_S) if waits else 0.0, cell.batch_size
        given = self._num_samples(cell)
        if batches := self._finished.get(_work(cell)):
            nearest = min(batches, key=lambda batch: abs(math.log(batch / size)))
            steps_s = [self._step_s(cell, batch) for batch in (size, nearest)]
            longer = steps_s[0] / steps_s[1] if steps_s[0] and steps_s[1] else size / nearest
            took_s = median(
                each.fixed_s + expected_s(cell, longer * each.step_s, given or each.num_samples)
                for each in batches[nearest][-NUM_LATEST:]
            )
            return Length(start_s + min(took_s, cell.timeout_s), 1, start_s=start_s)
        step_s = self._step_s(cell, size)
        step_s = 0.0 if step_s is None and cell.protocol in SERVING else step_s  # its duration is most of it
        if step_s is None or (cell.protocol in EPOCHS and given is None):
            return Length(num=1, num_unknown=1)  # what is known, its windows, may be a small part of it
        fixed_s = FIXED_S + (DECODERS_S if cell.data.pipeline == Pipeline.jpeg else 0.0)
        if waits and cell.engine == Engine.aotinductor:  # its export compiles
            start_s += COMPILED_S
        start_s += QUANTIZED_S if waits and cell.precision in QUANTIZED else 0.0
        fixed_s += COMPILED_S if cell.options.compile else 0.0
        took_s = fixed_s + expected_s(cell, step_s, given or (0, 0))
        return Length(start_s + min(took_s, cell.timeout_s), 1, start_s=start_s)

    def _num_samples(self, cell: Cell) -> tuple[int, int] | None:
        """How many samples of the training set and of the test set the cell uses; None if that is not known."""
        if (inputs := self.inputs.get(cell.data.name)) is None:
            return None
        num_train, num_test = inputs.num_samples
        return min(num_train, cell.data.train_images or num_train), num_test

    def _step_s(self, cell: Cell, size: int) -> float | None:
        """Seconds of a step of the cell with a batch of this size, by its work and the ceilings; None if unknown."""
        works, ceilings = self._works.get(_network(cell)), self.ceilings.get(cell.device)
        rate = ceilings and ceilings.ceiling_of(cell.precision)
        if not rate and ceilings and cell.precision in QUANTIZED:  # without units, it is about as fast as fp32
            rate = ceilings.ceiling_of(Precision.fp32)
        if not works or ceilings is None or not rate:
            return None
        if cell.device not in SHARE_ONE_CPU:
            ceilings, rate = ceilings.of_devices(cell.devices), cell.devices * rate
        low, high = min(works), max(works)  # flops and bytes are linear in the batch
        (low, less), more = (low, works[low]) if low < high else (0, (0, 0, works[high][2])), works[high]
        flops, num_bytes, num_operators = (
            start + (end - start) * (size - low) / (high - low) for start, end in zip(less, more, strict=True)
        )
        bytes_per_s = min(ceilings.memory_bytes_per_s, CORE_BYTES_PER_S * (ceilings.threads or math.inf))
        reached_s = (flops / rate + _width(cell) * num_bytes / bytes_per_s) / SHARE.get(cell.engine, SHARE_EXPORTED)
        return max(reached_s, num_operators * LAUNCHES * ceilings.launch_s)


def _width(cell: Cell) -> float:
    """The size of the cell's numbers, in those of fp32."""
    return WIDTHS.get(cell.precision, 1.0)


def needs(cell: Cell) -> tuple[object, ...]:
    """Equal for cells that wait for the same host or export: only the first of them does."""
    spec = host_spec(cell)
    return *spec.key, spec.exported_as


def _work(cell: Cell) -> str:
    """Equal for cells whose steps do the same work for each sample."""
    return canonical_json({name: value for name, value in cell.settings().items() if name not in COUNTS})


def _network(cell: Cell) -> str:
    """Equal for cells with the same network, mode and kind of images, whatever computes them."""
    model = plain(replace(cell.model, weights="", learning_rate=1.0))
    return canonical_json([model, cell.data.name, cell.data.path, cell.mode])


def _waited_s(record: Record) -> float:
    """Seconds that a cell waited for its host, about: what its samples do not explain."""
    if record.system is None or not record.system.t_s:
        return 0.0
    waited_s = record.wall_s - record.system.t_s[-1]
    return waited_s if waited_s > WAITED_S else 0.0


def read_evidence(root: Path, machine: Mapping[str, Any]) -> Evidence:
    """The evidence of the newest records of the project in `root`; those of another machine do not count."""

    def modified_s(path: Path) -> float:
        try:
            return path.stat().st_mtime
        except OSError:
            return 0.0

    paths = [path for folder in RECORD_FOLDERS for path in record_paths(root / folder)]
    newest = read_all(sorted(paths, key=modified_s)[-MAX_READ:])
    of_all = ((each, each.environment.get("home", each.environment)) for each in newest)
    return Evidence(each for each, home in of_all if home.get("machine") == machine)


def lengths(cells: Iterable[Cell], evidence: Evidence, started: Collection[Cell] = ()) -> list[Length]:
    """How long each of `cells` takes, one after another; only the first that `needs` what none has `started` waits."""
    ready, found = {needs(cell) for cell in started}, []
    for cell in cells:
        found.append(evidence.length(cell, waits=needs(cell) not in ready))
        ready.add(needs(cell))
    return found


def total(cells: Iterable[Cell], evidence: Evidence, started: Collection[Cell] = ()) -> Length:
    """How long all `cells` take; see `lengths`."""
    return sum(lengths(cells, evidence, started), Length())
