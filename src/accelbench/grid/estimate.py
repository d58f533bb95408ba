"""Estimates how long cells will take.

An estimate comes from the first of these sources that is available:

1. The cell was measured on this machine: the duration of its latest run.
2. A cell was measured that differs only in settings of `COUNTS`, such as the batch size: the time of a step is
   proportional to the batch size.
3. The cell's own settings, such as `window.measure_s`. They do not limit epochs, nor a number of steps.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accelbench.engines.registry import host_spec
from accelbench.errors import RefusedError
from accelbench.measuring.schedule import LEAST_WARMUP, MIN_PHASED, MIN_SAMPLES, NUM_INFER_EPOCHS
from accelbench.presentation import counted, duration
from accelbench.project import RECORD_FOLDERS
from accelbench.schema.cell import Cell
from accelbench.schema.measurement import Measurement
from accelbench.schema.plan_file import record_paths
from accelbench.schema.record import Record, read_all
from accelbench.schema.vocab import EPOCHS, QUANTIZED, SERVING, Engine, Mode, Pipeline, Protocol
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
        timed_s = cell.steps * step_s
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


class Evidence:
    """What estimates are based on: the records of finished cells, and the sizes of data sets."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self.num_samples: dict[str, tuple[int, int]] = {}  # name of a data set -> its training and test samples
        self._took_s: dict[str, float] = {}  # cell without seed and repeat -> seconds of its latest process
        self._steps: dict[str, tuple[int, float]] = {}  # work of a step -> batch size, and seconds of a step with it
        for record in sorted(records, key=lambda record: record.started_at):
            self.add(record)

    def add(self, record: Record) -> None:
        """Adds the durations of a record."""
        cell = record.cell
        measured = record.measurement
        if measured is None:
            return
        # The duration of the cell's process. `wall_s` also includes the wait for its host.
        times_s = record.system.t_s if record.system is not None else []
        self._took_s[cell.key_without(REPEATED)] = times_s[-1] if times_s else record.wall_s
        if step_s := steady_step_s(cell, measured):
            self._steps[cell.key_without(COUNTS)] = cell.batch_size, step_s

    def length(self, cell: Cell, waits: bool = False) -> Length:
        """Returns the duration of `cell`.

        If `waits` is true, the duration includes the start of the cell's host process and the export of its network.
        """
        start_s = START_S if waits else 0.0
        if waits and cell.engine == Engine.aotinductor:  # the export compiles the network
            start_s += COMPILED_S
        if waits and cell.precision in QUANTIZED:
            start_s += QUANTIZED_S
        took_s = self.measured_s(cell)
        if took_s is None and (cell.protocol in EPOCHS or cell.protocol == Protocol.steps):
            return Length(num_unknown=1)
        if took_s is None:
            took_s = self._expected_s(cell, 0.0)  # the cell's windows are most of the time
        return Length(start_s + min(took_s, cell.timeout_s))

    def measured_s(self, cell: Cell) -> float | None:
        """Returns the duration of `cell` if it, or a cell with the same step, was measured. Otherwise returns None."""
        took_s = self._took_s.get(cell.key_without(REPEATED))
        measured = self._steps.get(cell.key_without(COUNTS))
        if took_s is not None or measured is None:
            return took_s
        if cell.protocol in EPOCHS and cell.data.name not in self.num_samples:
            return None
        batch_size, step_s = measured
        return self._expected_s(cell, step_s * cell.batch_size / batch_size)

    def _expected_s(self, cell: Cell, step_s: float) -> float:
        """Returns the seconds that the cell's process takes, if one step takes `step_s`."""
        num_train, num_test = self.num_samples.get(cell.data.name, (0, 0))
        num_train = min(num_train, cell.data.train_images or num_train)
        fixed_s = FIXED_S
        if cell.data.pipeline == Pipeline.jpeg:
            fixed_s += DECODERS_S
        if cell.options.compile:
            fixed_s += COMPILED_S
        return fixed_s + expected_s(cell, step_s, (num_train, num_test))


def needs(cell: Cell) -> tuple[object, ...]:
    """Returns a key that is equal for all cells that use the same host process and the same exported network.

    Of the cells with the same key, only the first waits for the host's start and the network's export.
    """
    spec = host_spec(cell)
    return *spec.key, spec.exported_as


def read_evidence(root: Path, machine: Mapping[str, Any]) -> Evidence:
    """Returns the evidence in the newest records of the project in `root`. Only records of `machine` are used."""

    def modified_s(path: Path) -> float:
        try:
            return path.stat().st_mtime
        except OSError:
            return 0.0

    paths = []
    for folder in RECORD_FOLDERS:
        with suppress(RefusedError):  # an estimate is not worth a failed sweep
            paths += record_paths(root / folder)
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
