"""A cell: one point of the grid, frozen, with a stable id."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from accelbench.schema.serialize import digest
from accelbench.schema.vocab import (
    XLA,
    Augment,
    Device,
    Engine,
    KerasBackend,
    Library,
    Mode,
    Pipeline,
    Precision,
    Protocol,
    Scaling,
    Weights,
)


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """Which network, and how it is trained.

    Attributes:
        name: what people call it.
        library: where it comes from.
        network: what it is called there, for `custom` the class's dotted path; None where that is its name.
        weights: what it starts from.
        args: the network's own arguments, such as its dropout.
        optimizer: `adam` or `sgd`.
        learning_rate: the optimiser's step size.
        input_shape, num_classes: what random images are made like; other data has its own.
    """

    name: str
    library: Library = Library.accelbench
    network: str | None = None
    weights: Weights = Weights.none
    args: Mapping[str, Any] = field(default_factory=dict)
    optimizer: str = "adam"
    learning_rate: float = 1e-3
    input_shape: tuple[int, ...] = (28, 28)
    num_classes: int = 10

    @property
    def definition(self) -> str:
        """What its library calls it."""
        return self.network or self.name

    def is_own(self, definition: str) -> bool:
        """Whether it is accelbench's network of that name."""
        return (self.library, self.definition) == (Library.accelbench, definition)


@dataclass(frozen=True, kw_only=True)
class DataSpec:
    """Which data set, and how its batches come to be.

    Attributes:
        name: a prepared data set.
        pipeline: see `vocab.Pipeline`.
        num_workers: processes that decode, for `jpeg`.
        augment: see `vocab.Augment`.
    """

    name: str
    pipeline: Pipeline = Pipeline.array
    num_workers: int = 2
    augment: Augment = Augment.none


@dataclass(frozen=True, kw_only=True)
class Options:
    """What is done to the network to make it faster; plain eager computation without any. See docs/options.md.

    Attributes:
        channels_last: its weights and 4-dimensional inputs lie in memory with the channels innermost.
        compile: it runs as code that torch.compile (inductor) made of it.
        freeze: its weights are constants, folded together where they can be; for inference.
        cuda_graphs: its kernels are recorded once and launched together; for GPUs.
    """

    channels_last: bool = False
    compile: bool = False
    freeze: bool = False
    cuda_graphs: bool = False

    @property
    def enabled(self) -> list[str]:
        """The names of the options that are on, in order."""
        return [name for name, value in dataclasses.asdict(self).items() if value]


@dataclass(frozen=True, kw_only=True)
class KerasSettings:
    """How Keras runs a cell.

    Attributes:
        backend: what computes.
        jit_compile: whether XLA compiles the steps.
        steps_per_execution: steps that one call of the compiled function runs.
        tpu: which TPU TensorFlow drives: `local`, or the name of one in the cloud.
    """

    backend: KerasBackend = KerasBackend.tensorflow
    jit_compile: bool = False
    steps_per_execution: int = 1
    tpu: str = "local"

    @property
    def non_defaults(self) -> list[str]:
        """What is not as it is by default, in words."""
        words = [] if self.backend == KerasBackend.tensorflow else [self.backend.value]
        words += ["jit_compile"] if self.jit_compile else []
        return words + ([f"{self.steps_per_execution}steps_per_execution"] if self.steps_per_execution > 1 else [])


@dataclass(frozen=True, kw_only=True)
class Window:
    """The bounds of the `window` protocol.

    Attributes:
        warmup_steps: steps waited for one by one and left out, at least.
        warmup_s: seconds of warm-up, at least; compilation is not counted in. It goes on, up to ten times as long,
            until step times have settled.
        measure_s: seconds of free-running blocks, at least; up to three times as long where their speed varies.
        width: the blocks are enough when half of the median's 95 % interval is within this share of it.
        block_s: seconds of one block, at least: each is waited for at its end only.
        latency_s: seconds of steps waited for one by one, at most.
        latency_steps: steps waited for one by one, at most.
    """

    warmup_steps: int = 5
    warmup_s: float = 0.3
    measure_s: float = 1.0
    width: float = 0.02
    block_s: float = 0.1
    latency_s: float = 0.7
    latency_steps: int = 700


# The attributes of a cell that one protocol alone goes by.
BOUNDS = {Protocol.window: ["window"], Protocol.steps: ["warmup", "steps"]}


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One point of the grid: everything that decides what is measured, and nothing else.

    Attributes:
        suite: the sweep that asked for it; a label, no part of the id.
        devices: how many of the device compute, each its part of every batch.
        batch_size: samples per step over all devices.
        xla_processes: whether several XLA devices have a process each, as on a TPU pod; else one drives them all.
        scaling: whether `batch_size` was asked for as it is, or grew with `devices`.
        epochs: passes over the training set; where none is run, those that the time is estimated for.
        warmup, steps: for the protocol `steps`: how many are left out, and how many are measured.
        breakdown_s: seconds of further steps whose phases are timed; 0 for none. Whole epochs have none.
        options: what is done to the network to make it faster.
        keras: how Keras runs it; None for another engine.
        threads: CPU threads of the framework, in each process; None lets it use every core, shared among `devices`.
        seed: of the weights, the data's order and dropout.
        repeat: counts fresh processes that measure the same settings.
        timeout_s: seconds after which the cell's process is killed; no part of the id.
    """

    suite: str
    engine: Engine
    device: Device
    model: ModelSpec
    data: DataSpec
    mode: Mode
    precision: Precision
    batch_size: int
    protocol: Protocol
    epochs: int
    warmup: int = 10
    steps: int = 50
    breakdown_s: float = 0.3
    devices: int = 1
    xla_processes: bool = False
    scaling: Scaling = Scaling.strong
    options: Options = Options()
    keras: KerasSettings | None = None
    threads: int | None = None
    seed: int = 0
    repeat: int = 0
    window: Window = Window()
    timeout_s: float = 600.0

    def settings(self) -> dict[str, Any]:
        """What the id is made of: all but the label and the time limit, as plain JSON values.

        What another protocol goes by is left out, so that changing it measures none of them again.
        """
        values = dataclasses.asdict(self)
        others = [protocol for protocol in BOUNDS if protocol != self.protocol]
        for key in ["suite", "timeout_s", *(key for other in others for key in BOUNDS[other])]:
            del values[key]
        return values

    @property
    def id(self) -> str:
        """12 hexadecimal digits that name the settings, seed and repeat included."""
        return digest(self.settings())[:12]

    @property
    def batch_size_per_device(self) -> int:
        """Samples per step on each device; `support` skips what does not divide."""
        return self.batch_size // self.devices

    @property
    def num_processes(self) -> int:
        """How many processes compute it: one for each device, or one that drives them all."""
        one_each = self.engine == Engine.lightning and (self.device not in XLA or self.xla_processes)
        return self.devices if one_each else 1

    @property
    def label(self) -> str:
        """A short name for people, such as `cnn-cpu-bf16-b128-train`."""
        device = self.device if self.devices == 1 else f"{self.device}x{self.devices}"
        parts = [self.model.name, device, self.precision, f"b{self.batch_size}", self.mode, *self.options.enabled]
        if self.scaling == Scaling.weak:
            parts.append(self.scaling)
        if self.xla_processes:
            parts.append("processes")
        if self.keras is not None:
            parts += [self.engine, *self.keras.non_defaults]
        if self.data.pipeline != Pipeline.array:
            parts.append(self.data.pipeline)
        if self.data.augment != Augment.none:
            parts.append(self.data.augment)
        if self.protocol != Protocol.window:
            parts.append(f"{self.steps}steps" if self.protocol == Protocol.steps else self.protocol)
        parts += [f"s{self.seed}"] if self.seed else []
        return "-".join(parts + ([f"r{self.repeat}"] if self.repeat else []))

    def to_json(self) -> dict[str, Any]:
        """All attributes as plain JSON values; `serialize.load(Cell, values)` reads them back."""
        return dataclasses.asdict(self)
