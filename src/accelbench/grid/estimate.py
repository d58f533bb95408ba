"""Estimates how long cells will take, within a factor of two.

An estimate comes from the first of these sources that is available:

1. The cell was measured on this machine: the duration of its latest run.
2. A cell was measured that differs only in settings of `COUNTS`, such as the batch size: the time of a step is
   proportional to the batch size.
3. The operations of the network were counted: the time of a step is operations / (`SHARE` * ceiling). The ceiling is
   the peak rate that was measured on the device. Networks reach about the share `SHARE` of it.

If none is available, only a cell that serves requests has an estimate, because it takes at least its `duration_s`.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from accelbench.engines.registry import host_spec
from accelbench.measuring.schedule import EARLY_S, LEAST_WARMUP, MIN_PHASED, MIN_SAMPLES, NUM_INFER_EPOCHS, STRETCH
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
    Weights,
)
from accelbench.schema.workload import DataSpec
from accelbench.serving.server import ONE_AT_A_TIME

NUM_CHECK_STEPS = 3  # steps after the timed ones: they count the work and check the outputs
# A sample's time in an evaluation, divided by its time in training. An evaluation has no backward pass.
EVALUATION = 1 / 3
REPEATED = {"seed", "repeat"}  # settings that do not change a cell's duration
# Settings that may change the number of steps, but not the work of a step for each sample.
COUNTS = REPEATED | {"batch_size", "scaling", "protocol", "window", "warmup", "steps", "epochs", "breakdown_s"}
COUNTS |= {"budget_s", "server", "target"}
MAX_READ = 500  # newest records that are read; reading a record takes about 0.5 ms
START_S = 7.0  # to start a host, which imports the framework
FIXED_S = 1.2  # of a cell besides the start of its host and its steps
COMPILED_S = 20.0  # to compile a network with inductor
QUANTIZED_S = 15.0  # to quantise an exported network
DECODERS_S = 8.0  # to start the processes that decode pictures
# The share of a CPU's ceiling that networks reach, measured on two machines with the suites of params.yaml.
SHARE = {Engine.pytorch: 0.3, Engine.lightning: 0.3, Engine.keras: 0.5}
SHARE_EXPORTED = 0.7


@dataclass(frozen=True)
class Length:
    """The estimated duration of one or more cells."""

    seconds: float = 0.0  # total of the cells whose duration is known
    num_unknown: int = 0  # number of cells whose duration is unknown

    def __add__(self, other: "Length") -> "Length":
        return Length(self.seconds + other.seconds, self.num_unknown + other.num_unknown)

    def __str__(self) -> str:
        """Returns the duration as text, such as `about 52 s`, or `about 40 s and 3 cells of unknown length`."""
        if not (self.seconds or self.num_unknown):
            return "0 s"
        length = f"about {duration(max(1.0, self.seconds))}"
        unknown = f"{counted(self.num_unknown, 'cell')} of unknown length"
        if not self.num_unknown:
            return length
        return f"{length} and {unknown}" if self.seconds else unknown


def expected_s(cell: Cell, step_s: float, num_samples: tuple[int, int]) -> float:
    """Returns the seconds that all steps of `cell` take together, if one step takes `step_s`.

    `num_samples` contains the number of training samples and the number of test samples.
    """
    if cell.protocol in EPOCHS:  # an upper bound for a training to a target, which may reach it earlier
        num_train, num_test = num_samples
        trained = cell.epochs * (num_train + EVALUATION * num_test)
        num = trained if cell.mode == Mode.train else NUM_INFER_EPOCHS * num_test
        return (num / cell.batch_size + NUM_CHECK_STEPS) * step_s
    if cell.protocol in SERVING:
        _, least = ONE_AT_A_TIME.get(cell.protocol, (1, 0))
        return max(cell.server.duration_s, least * step_s) + (LEAST_WARMUP + NUM_CHECK_STEPS) * step_s
    window = cell.window
    num_checks = NUM_CHECK_STEPS
    if cell.breakdown_s:
        num_checks += 2 * MIN_PHASED
    if cell.protocol == Protocol.steps:
        timed_s = min(cell.steps * step_s, STRETCH * max(EARLY_S, MIN_SAMPLES * step_s))
        steps_s = (cell.warmup + num_checks) * step_s + timed_s
    else:
        # Slow steps are assumed: their warm-up settles after twice the minimum number of steps.
        steps_s = window.warmup_s + window.measure_s + min(window.latency_s, window.latency_steps * step_s)
        steps_s += (2 * window.warmup_steps + num_checks) * step_s
    least_s = (LEAST_WARMUP + MIN_SAMPLES + NUM_CHECK_STEPS) * step_s
    return min(steps_s + cell.breakdown_s, max(cell.budget_s, least_s) if cell.budget_s else math.inf)


def steady_step_s(cell: Cell, measured: Measurement) -> float | None:
    """Returns the mean seconds of a step in the steady state. Returns None if no such step was measured."""
    if measured.blocks:
        return sum(block.seconds for block in measured.blocks) / sum(block.num_steps for block in measured.blocks)
    if epochs := measured.steady_epochs:
        num_steps = sum(math.ceil(epoch.num_samples / cell.batch_size) for epoch in epochs)
        return sum(epoch.seconds for epoch in epochs) / num_steps
    return None


@dataclass(frozen=True)
class Inputs:
    """The facts about a data set that are known before it is prepared."""

    num_samples: tuple[int, int]  # samples of the training set and of the test set
    shape: tuple[int, ...]  # shape of an image, channels first; empty if unknown
    num_classes: int


class Evidence:
    """What estimates are based on: durations of finished cells, peak rates of devices, and operations of networks."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self.ceilings: dict[Device, Ceilings] = {}
        self.inputs: dict[str, Inputs] = {}  # name of a data set -> its facts
        self._took_s: dict[str, float] = {}  # cell without seed and repeat -> seconds of its latest process
        self._steps: dict[str, tuple[int, float]] = {}  # work of a step -> batch size, and seconds of a step with it
        self._flops: dict[str, float] = {}  # network -> operations for one sample
        for record in sorted(records, key=lambda record: record.started_at):
            self.add(record)

    def add(self, record: Record) -> None:
        """Adds the durations, ceilings and counted operations of a record."""
        cell = record.cell
        measured = record.measurement
        if measured is None:
            return
        # The duration of the cell's process. `wall_s` also includes the wait for its host.
        times_s = record.system.t_s if record.system is not None else []
        self._took_s[cell.key_without(REPEATED)] = times_s[-1] if times_s else record.wall_s
        if step_s := steady_step_s(cell, measured):
            self._steps[cell.key_without(COUNTS)] = cell.batch_size, step_s
        if (ceilings := ceilings_in(record.environment)) is not None:
            self.ceilings[cell.device] = ceilings
        self.learn(cell, measured.work)

    def learn(self, cell: Cell, work: Work | None) -> None:
        """Stores the operations that the cell's network needs per sample, if the operations were counted."""
        if work is not None and work.flops is not None:
            self._flops[_network(cell)] = work.flops / cell.batch_size

    def unmeasured(self, cells: Iterable[Cell]) -> list[Cell]:
        """Returns the cells that were measured neither with their own settings nor with other values of `COUNTS`.

        Cells with the user's code are left out, because an estimate must not run the user's code.
        """
        unknown = [cell for cell in cells if cell.key_without(REPEATED) not in self._took_s]
        return [cell for cell in unknown if not cell.own_code and cell.key_without(COUNTS) not in self._steps]

    def uncounted(self, cells: Iterable[Cell]) -> list[Cell]:
        """Returns one cell for every network whose operations are unknown: the cell with the smallest batch."""
        smallest: dict[str, Cell] = {}
        for cell in sorted(cells, key=lambda cell: cell.batch_size):
            if cell.mode != Mode.generate and _network(cell) not in self._flops:  # counting it takes too long
                smallest.setdefault(_network(cell), cell)
        return list(smallest.values())

    def counted_as(self, cell: Cell) -> Cell:
        """Returns a replacement for `cell` to count operations: the same network in PyTorch, fp32, on random images."""
        model = replace(cell.model, weights=Weights.none.value)
        if (inputs := self.inputs.get(cell.data.name)) and inputs.shape:
            model = replace(model, input_shape=inputs.shape, num_classes=inputs.num_classes)
        data = DataSpec(name=RANDOM, pipeline=Pipeline.host)
        engine = Engine.pytorch
        cell = replace(cell, model=model, data=data, engine=engine, keras=None, device=Device.cpu, devices=1)
        return replace(cell, precision=Precision.fp32, options=Options(), threads=None)

    def length(self, cell: Cell, waits: bool = False) -> Length:
        """Returns the duration of `cell`.

        If `waits` is true, the duration includes the start of the cell's host process and the export of its network.
        """
        start_s = START_S if waits else 0.0
        if waits and cell.engine == Engine.aotinductor:  # the export compiles the network
            start_s += COMPILED_S
        if waits and cell.precision in QUANTIZED:
            start_s += QUANTIZED_S
        took_s = self._took_s.get(cell.key_without(REPEATED)) or self._estimated_s(cell)
        if took_s is None:
            return Length(num_unknown=1)  # the windows are known, but may be a small part of the duration
        return Length(start_s + min(took_s, cell.timeout_s))

    def _estimated_s(self, cell: Cell) -> float | None:
        step_s = self._step_s(cell)
        num_samples = (0, 0)
        if step_s is None and cell.protocol in SERVING:  # `duration_s` is most of the time
            step_s = 0.0
        if (inputs := self.inputs.get(cell.data.name)) is not None:
            num_train, num_test = inputs.num_samples
            num_samples = min(num_train, cell.data.train_images or num_train), num_test
        if step_s is None or (cell.protocol in EPOCHS and inputs is None):
            return None
        fixed_s = FIXED_S
        if cell.data.pipeline == Pipeline.jpeg:
            fixed_s += DECODERS_S
        if cell.options.compile:
            fixed_s += COMPILED_S
        return fixed_s + expected_s(cell, step_s, num_samples)

    def _step_s(self, cell: Cell) -> float | None:
        """Returns the estimated seconds of a step, or None if they are unknown."""
        if (measured := self._steps.get(cell.key_without(COUNTS))) is not None:
            batch_size, step_s = measured
            return step_s * cell.batch_size / batch_size
        flops = self._flops.get(_network(cell))
        ceilings = self.ceilings.get(cell.device)
        if flops is None or ceilings is None:
            return None
        rate = ceilings.ceiling_of(cell.precision)
        if rate is None and cell.precision in QUANTIZED:
            # Without units for int8, a device computes int8 about as fast as fp32.
            rate = ceilings.ceiling_of(Precision.fp32)
        if rate is None:
            return None
        num_devices = 1 if cell.device in SHARE_ONE_CPU else cell.devices
        return flops * cell.batch_size / (num_devices * rate * SHARE.get(cell.engine, SHARE_EXPORTED))


def needs(cell: Cell) -> tuple[object, ...]:
    """Returns a key that is equal for all cells that use the same host process and the same exported network.

    Of the cells with the same key, only the first waits for the host's start and the network's export.
    """
    spec = host_spec(cell)
    return *spec.key, spec.exported_as


def _network(cell: Cell) -> str:
    """Returns a key that is equal for cells with the same network, mode and data. Device and engine may differ."""
    model = plain(replace(cell.model, weights="", learning_rate=1.0))
    return canonical_json([model, cell.data.name, cell.data.path, cell.mode])


def read_evidence(root: Path, machine: Mapping[str, Any]) -> Evidence:
    """Returns the evidence in the newest records of the project in `root`. Only records of `machine` are used."""

    def modified_s(path: Path) -> float:
        try:
            return path.stat().st_mtime
        except OSError:
            return 0.0

    paths = [path for folder in RECORD_FOLDERS for path in record_paths(root / folder)]
    newest = read_all(sorted(paths, key=modified_s)[-MAX_READ:])
    of_all = ((record, record.environment.get("home", record.environment)) for record in newest)
    return Evidence(record for record, home in of_all if home.get("machine") == machine)


def lengths(cells: Iterable[Cell], evidence: Evidence, started: Collection[Cell] = ()) -> list[Length]:
    """Returns the duration of each cell, in order. Host processes of the cells in `started` already run."""
    ready = {needs(cell) for cell in started}
    in_turn = []
    for cell in cells:
        in_turn.append(evidence.length(cell, waits=needs(cell) not in ready))
        ready.add(needs(cell))
    return in_turn


def total(cells: Iterable[Cell], evidence: Evidence, started: Collection[Cell] = ()) -> Length:
    """The duration of all `cells` together; see `lengths`."""
    return sum(lengths(cells, evidence, started), Length())
