"""The settings of one measurement: a cell is one point of the grid, frozen, with a stable id."""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from accelbench.schema.ranges import AtLeastOne, Count, NotNegative
from accelbench.schema.serialize import canonical_json, digest, plain
from accelbench.schema.text import one_line
from accelbench.schema.vocab import (
    XLA,
    Allocator,
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
from accelbench.schema.workload import DataSpec, ModelSpec

MAX_ARGUMENT = 24  # characters of a value in a label
# The settings that a user chooses among; cells that differ in any other setting do different things.
CHOSEN_SETTINGS = (
    *("engine", "keras", "device", "devices", "scaling", "precision", "options"),
    *("batch_size", "threads", "seed", "repeat"),
)


def argument_text(name: str, value: object) -> str:
    """A setting in a label, such as `units=128`; of a long value, the beginning of its digest."""
    text = value_text(value)
    return f"{name}={text if len(text) <= MAX_ARGUMENT else digest(text)[:6]}"


def value_text(value: object) -> str:
    """The value of a setting for people. A text has quotes only if it reads like another value without them."""
    if not isinstance(value, str):
        return canonical_json(value)
    try:
        json.loads(value)
    except (ValueError, RecursionError):
        return value
    return canonical_json(value)


@dataclass(frozen=True, kw_only=True)
class Options:
    """Ways to make a network faster, each off by default. See docs/options.md.

    The last two are of the cell's process and leave the network as it is.

    Attributes:
        channels_last: weights and 4-dimensional inputs have the channels innermost in memory.
        compile: torch.compile (inductor) compiles the network.
        freeze: weights become constants, which are folded into each other; for inference.
        cuda_graphs: the kernels are recorded once and launched together; for GPUs.
        flush_denormals: the CPU computes with 0 instead of denormal numbers, which are slow.
        allocator: what gives the process its memory.
    """

    channels_last: bool = False
    compile: bool = False
    freeze: bool = False
    cuda_graphs: bool = False
    flush_denormals: bool = False
    allocator: Allocator = Allocator.default

    @property
    def enabled(self) -> list[str]:
        """Words for the options that are on, in the order of their definition: their names, and the allocator's."""
        own_allocator = [] if self.allocator == Allocator.default else [self.allocator.value]
        return [name for name, value in vars(self).items() if value is True] + own_allocator

    @property
    def of_network(self) -> list[str]:
        """The names of those that are on and change the network or how it is run."""
        return [name for name, value in vars(self).items() if value is True and name != "flush_denormals"]

    @property
    def change_output(self) -> bool:
        """Whether the output may differ from the plain network's."""
        return bool(self.of_network) or self.flush_denormals


@dataclass(frozen=True, kw_only=True)
class KerasSettings:
    """How Keras runs a cell.

    Attributes:
        backend: the framework that computes.
        jit_compile: whether XLA compiles the steps.
        steps_per_execution: steps per call of the compiled function.
        tpu: the TPU that TensorFlow drives: `local`, or the name of a Cloud TPU.
    """

    backend: KerasBackend = KerasBackend.tensorflow
    jit_compile: bool = False
    steps_per_execution: AtLeastOne = 1
    tpu: str = "local"

    @property
    def non_defaults(self) -> list[str]:
        """Words for the settings that differ from their defaults; part of a cell's label."""
        words = [] if self.backend == KerasBackend.tensorflow else [self.backend.value]
        words += ["jit_compile"] if self.jit_compile else []
        return words + ([f"{self.steps_per_execution}steps_per_execution"] if self.steps_per_execution > 1 else [])


@dataclass(frozen=True, kw_only=True)
class TrainerSettings:
    """How Lightning's Trainer runs the user's LightningModule; see Lightning's documentation."""

    accumulate_grad_batches: AtLeastOne = 1
    gradient_clip_val: NotNegative | None = None

    @property
    def non_defaults(self) -> list[str]:
        """Words for the settings that differ from their defaults; part of a cell's label."""
        words = [] if self.accumulate_grad_batches == 1 else [f"accumulate{self.accumulate_grad_batches}"]
        return words + ([] if self.gradient_clip_val is None else [f"clip{self.gradient_clip_val:g}"])


@dataclass(frozen=True, kw_only=True)
class Window:
    """The bounds of the `window` protocol.

    Attributes:
        warmup_steps: minimum of warm-up steps, which are not measured.
        warmup_s: minimum seconds of warm-up without compilation. Warm-up goes on for up to ten times as long until
            step times have settled.
        measure_s: minimum seconds of blocks; up to three times as long if their speed varies.
        width: target precision: half of the 95 % interval of the median block, as a share of the median.
        block_s: minimum seconds of one block, whose steps run freely and are waited for at its end.
        latency_s, latency_steps: maximum seconds and number of the steps that are waited for one by one.
    """

    warmup_steps: Count = 5
    warmup_s: NotNegative = 0.3
    measure_s: NotNegative = 1.0
    width: NotNegative = 0.02
    block_s: NotNegative = 0.1
    latency_s: NotNegative = 0.7
    latency_steps: Count = 700


# Protocol -> the attributes of a cell that only this protocol uses.
BOUNDS = {Protocol.window: ["window"], Protocol.steps: ["warmup", "steps"]}


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One point of the grid: everything that decides what is measured, and nothing else.

    Attributes:
        suite: the sweep that the cell belongs to; not part of the id.
        batch_size: samples per step, over all devices.
        epochs: whole epochs to run (`fit`); for other protocols, the number whose duration is estimated.
        warmup, steps: for the protocol `steps`: steps that are left out, and steps that are measured.
        breakdown_s: seconds of additional steps whose phases are timed; 0 for none. `fit` has none.
        devices: how many devices of the kind `device` compute, each an equal part of every batch.
        xla_processes: True: one process per XLA device, as on a TPU pod. False: one process drives them all.
        scaling: `strong` if `batch_size` is as the user gave it, `weak` if it was multiplied by `devices`.
        options: ways to make the network faster.
        keras: how Keras runs the cell; None for another engine.
        trainer: how the Trainer runs a LightningModule of the user; None for other networks.
        save_weights: whether the trained weights are saved beside the record, as safetensors.
        threads: CPU threads of the framework in each process; None: all cores, shared among `devices`.
        seed: of the weights, the order of the data and dropout.
        repeat: index of this cell among those with equal settings, each measured in a fresh process.
        timeout_s: seconds after which the cell's process is killed; not part of the id.
    """

    suite: str
    engine: Engine
    device: Device
    model: ModelSpec
    data: DataSpec
    mode: Mode
    precision: Precision
    batch_size: AtLeastOne
    protocol: Protocol
    epochs: AtLeastOne
    warmup: Count = 10
    steps: AtLeastOne = 50
    breakdown_s: NotNegative = 0.3
    devices: AtLeastOne = 1
    xla_processes: bool = False
    scaling: Scaling = Scaling.strong
    options: Options = Options()
    keras: KerasSettings | None = None
    trainer: TrainerSettings | None = None
    save_weights: bool = False
    threads: AtLeastOne | None = None
    seed: Count = 0
    repeat: Count = 0
    window: Window = Window()
    timeout_s: NotNegative = 600.0

    def settings(self) -> dict[str, Any]:
        """The settings that the id is made of, as plain JSON values: all but `suite` and `timeout_s`.

        Attributes that only another protocol uses are left out: changing them must not change this cell's id.
        """
        return _settings(plain(self))

    @property
    def id(self) -> str:
        """12 hexadecimal digits: the digest of the settings, seed and repeat included."""
        return digest(self.settings())[:12]

    @property
    def own_code(self) -> dict[str, str]:
        """The settings whose values are dotted paths of the user's own code, such as `model.loss`, and those paths."""
        return self.model.own_code | ({"data.target": self.data.target} if self.data.target else {})

    @property
    def arguments(self) -> list[tuple[str, Any]]:
        """Names and values of the arguments of the network, of its batches and of its data, for people."""
        return [*self.model.args.items(), *self.model.batch_args.items(), *self.data.args.items()]

    @property
    def batch_size_per_device(self) -> int:
        """Samples per step on each device. `grid.support` skips cells whose batch can't be divided evenly."""
        return self.batch_size // self.devices

    @property
    def num_processes(self) -> int:
        """How many processes compute the cell: one per device, or one that drives them all."""
        one_per_device = self.engine == Engine.lightning and (self.device not in XLA or self.xla_processes)
        return self.devices if one_per_device else 1

    @property
    def label(self) -> str:
        """A short name for people, such as `cnn-cpu-bf16-b128-train`, with the settings that differ from the defaults.

        It leaves out the settings whose defaults conf/ and params.yaml decide: of these, `labels.labels` adds those in
        which the cells of one folder differ.
        """
        device = self.device if self.devices == 1 else f"{self.device}x{self.devices}"
        parts = [self.model.name, device, self.precision, f"b{self.batch_size}", self.mode, *self.options.enabled]
        if self.scaling == Scaling.weak:
            parts.append(self.scaling)
        if self.xla_processes:
            parts.append("processes")
        parts += [] if self.engine == Engine.lightning else [self.engine]
        parts += [] if self.keras is None else self.keras.non_defaults
        parts += [] if self.trainer is None else self.trainer.non_defaults
        if self.data.pipeline != Pipeline.array:
            parts.append(self.data.pipeline)
        if self.data.augment != Augment.none:
            parts.append(self.data.augment)
        if self.protocol != Protocol.window:
            parts.append(f"{self.steps}steps" if self.protocol == Protocol.steps else self.protocol)
        parts += [] if self.threads is None else [f"{self.threads}thread{'s' * (self.threads > 1)}"]
        parts += [] if self.model.weights == Weights.none else [PurePath(self.model.weights).name]
        parts += [] if self.model.task is None else [self.model.task]
        if self.model.library != Library.accelbench:  # of accelbench's own networks, conf/ has the default arguments
            parts += [argument_text(name, value) for name, value in self.arguments]
        parts += [f"s{self.seed}"] if self.seed else []
        return one_line("-".join(parts + ([f"r{self.repeat}"] if self.repeat else [])))

    def to_json(self) -> dict[str, Any]:
        """All attributes as plain JSON values; `serialize.load(Cell, values)` reads them back."""
        return dataclasses.asdict(self)


def id_of(values: Mapping[str, Any]) -> str:
    """`Cell.id` of the cell with these attributes, as JSON has them."""
    return digest(_settings(values))[:12]


def _settings(values: Mapping[str, Any]) -> dict[str, Any]:
    others = [key for protocol, keys in BOUNDS.items() if protocol != values["protocol"] for key in keys]
    left_out = {"suite", "timeout_s", *others}
    settings = {name: value for name, value in values.items() if name not in left_out}
    if not settings["model"].get("constant"):  # cells that do not use it keep their ids
        settings["model"] = {name: value for name, value in settings["model"].items() if name != "constant"}
    return settings
