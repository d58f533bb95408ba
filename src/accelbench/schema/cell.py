"""The settings of one measurement. A cell is a frozen object with one combination of settings and a stable id."""

import json
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import PurePath
from typing import Annotated, Any

from msgspec import Meta

from accelbench.schema import vocab
from accelbench.schema.interpreters import folder_name
from accelbench.schema.ranges import MAX_COUNT, AtLeastOne, Count, NotNegative, Number, Positive, Share
from accelbench.schema.serialize import canonical_json, digest, plain
from accelbench.schema.setting import declared, setting
from accelbench.schema.text import one_line
from accelbench.schema.workload import DataSpec, ModelSpec

MAX_ARGUMENT = 24  # characters of a value in a label
MAX_SEED = 2**32 - 1
MAX_STEPS = 1_000_000  # a record with the times of more steps would be too large to read
Steps = Annotated[int, Meta(ge=1, le=MAX_STEPS)]
_shown = partial(setting, column=True)
# The settings that a user chooses among. Cells that differ in another setting do different work.
CHOSEN_SETTINGS = (
    "engine",
    "keras",
    "device",
    "devices",
    "scaling",
    "precision",
    "options",
    "batch_size",
    "threads",
    "python",
    "seed",
    "repeat",
)


def argument_text(name: str, value: object) -> str:
    """Formats a setting for a label, such as `units=128`. A long value is replaced by the beginning of its digest."""
    text = value_text(value)
    return f"{name}={text if len(text) <= MAX_ARGUMENT else digest(text)[:6]}"


def value_text(value: object) -> str:
    """Formats the value of a setting for people.

    A string has no quotes. But if the string is valid JSON, such as `1` or `true`, it has quotes.
    """
    if not isinstance(value, str):
        return canonical_json(value)
    try:
        json.loads(value)
    except (ValueError, RecursionError):
        return value
    return canonical_json(value)


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options that make a network faster. All are off by default. docs/engines.md describes them.

    `flush_denormals` and `allocator` apply to the whole process of the cell.
    """

    channels_last: bool = _shown(False, "whether images have the channels-last memory layout")
    compile: bool = _shown(False, "whether torch.compile compiles the network")
    freeze: bool = _shown(False, "mode=infer: whether weights become constants of the network")
    cuda_graphs: bool = _shown(False, "whether a step is recorded once and replayed as a CUDA graph")
    flush_denormals: bool = _shown(False, "whether denormal numbers (almost 0, and slow on a CPU) become 0")
    allocator: vocab.Allocator = _shown(vocab.Allocator.default, "memory allocator of the cell's process")

    @property
    def _flags(self) -> list[str]:
        return [name for name, value in vars(self).items() if value is True]

    @property
    def enabled(self) -> list[str]:
        """The names of the options that are on, in the order of their definition. A chosen allocator comes last."""
        return self._flags + ([] if self.allocator == vocab.Allocator.default else [self.allocator])

    @property
    def of_network(self) -> list[str]:
        """The names of the enabled options that change the network, or change how it runs."""
        return [name for name in self._flags if name != "flush_denormals"]


@dataclass(frozen=True, kw_only=True)
class KerasSettings:
    """How Keras runs a cell."""

    backend: vocab.KerasBackend = _shown(vocab.KerasBackend.tensorflow, "keras: framework that computes")
    jit_compile: bool = _shown(False, "keras: whether XLA compiles the network")
    steps_per_execution: AtLeastOne = _shown(
        1, "keras: number of batches that one call of the compiled function computes"
    )
    tpu: str = setting("local", "keras: name of the TPU, or local for the TPU of this machine")


@dataclass(frozen=True, kw_only=True)
class TrainerSettings:
    """How Lightning's Trainer runs the user's LightningModule. Settings have the names of the Trainer's arguments."""

    accumulate_grad_batches: AtLeastOne = _shown(
        1, "batches that a LightningModule gets before each step of its optimiser"
    )
    gradient_clip_val: NotNegative | None = _shown(
        None, "maximum norm to which the gradients of a LightningModule are clipped"
    )


@dataclass(frozen=True, kw_only=True)
class Window:
    """The bounds of a measurement with protocol=window: see docs/measuring.md.

    The warm-up ends when step times have settled. It also ends when both `10 * warmup_s` seconds and
    `2 * warmup_steps` steps are over. Measuring of blocks ends when `(high - low) / 2 / median` is at most `width`.
    `low` and `high` are the ends of the 95 % interval of the median block. At the latest, measuring ends after
    `3 * measure_s` seconds.
    """

    warmup_steps: Count = setting(5, "minimum number of warm-up steps")
    warmup_s: NotNegative = setting(0.3, "minimum seconds of warm-up")
    measure_s: Positive = setting(1.0, "minimum seconds of all blocks (groups of steps). Maximum: three times as long")
    width: Positive = setting(
        0.02, "measuring ends when half of the 95 % interval, divided by the median, is at most this number"
    )
    block_s: Positive = setting(0.1, "minimum seconds of a block of steps")
    latency_s: NotNegative = setting(0.7, "maximum seconds of all steps that are timed one by one, for the latency")
    latency_steps: Steps = setting(700, "maximum number of steps that are timed one by one, for the latency")


@dataclass(frozen=True, kw_only=True)
class Server:
    """How requests arrive and how batches are made of them, for protocols that serve: see docs/serving.md.

    `max_batch` and `max_delay_ms` mean the same as in Triton's dynamic batching. A batch is computed when it is full,
    or when its oldest request has waited for `max_delay_ms`.
    """

    rate: Positive = _shown(50.0, "protocol=server: requests that arrive per second")
    latency_ms: Positive = _shown(
        50.0, "protocol=server: latency limit of a request in milliseconds", column="limit_ms"
    )
    percentile: Annotated[float, Meta(gt=0.0, le=99.99)] = _shown(
        99.0,
        "protocol=server: percentage of the requests that must be answered within server.latency_ms",
        column="limit_percentile",
    )
    duration_s: Positive = setting(20.0, "seconds in which requests arrive")
    max_batch: AtLeastOne | None = setting(None, "maximum number of requests in a batch. Default: batch_size")
    max_delay_ms: NotNegative = _shown(0.0, "maximum milliseconds that a request waits for its batch to fill up")
    workers: AtLeastOne = _shown(1, "number of instances of the network; they share the CPU threads")


ACCURACY, LOSS = "accuracy", "loss"  # metrics of a target; another word, `metric`, means `model.metric`


@dataclass(frozen=True, kw_only=True)
class Target:
    """The goal of a training with protocol=target: see docs/time-to-accuracy.md.

    The network is evaluated on a part of the training set on which it is not trained. The result on the test set is
    reported, but does not end the training.
    """

    accuracy: Share | None = setting(
        None,
        "protocol=target: share of right answers to reach, such as 0.97",
        column="target_accuracy",
    )
    metric: str = _shown(
        ACCURACY,
        "protocol=target: accuracy, loss, metric (your model.metric), or the name of a value that your module logs",
        column="target_metric",
    )
    value: Number | None = setting(
        None, "protocol=target: value to reach, unless target.metric=accuracy", column="target_value"
    )
    lower: bool | None = setting(
        None, "protocol=target: whether a lower value is better. Default: true if target.metric contains loss or error"
    )
    definition: vocab.Definition = _shown(
        vocab.Definition.passage,
        "protocol=target: end of the training: passage (the target is reached) or fixed (all epochs are over)",
        column="target_definition",
    )
    validation: Positive = setting(0.1, "protocol=target: share of the training set that is kept for evaluations")
    every: Positive = setting(1.0, "protocol=target: epochs from one evaluation to the next, such as 0.25")
    every_steps: AtLeastOne | None = setting(
        None, "protocol=target: steps from one evaluation to the next; replaces target.every"
    )

    @property
    def threshold(self) -> float:
        """The value that the metric must reach. NaN if the target has no value, which `settings.to_cell` refuses."""
        value = self.accuracy if self.metric == ACCURACY else self.value
        return math.nan if value is None else value

    @property
    def is_lower(self) -> bool:
        """Whether lower values of the metric are better."""
        name = self.metric.lower()
        return self.lower if self.lower is not None else any(word in name for word in ("loss", "error"))

    def is_met(self, value: float | None) -> bool:
        """Returns whether `value` reaches the target. A value of None was not finite, and does not reach the target."""
        return value is not None and (value <= self.threshold if self.is_lower else value >= self.threshold)

    @property
    def text(self) -> str:
        """The target in words, such as `accuracy at least 0.97`."""
        return f"{self.metric} at {'most' if self.is_lower else 'least'} {self.threshold:g}"


@dataclass(frozen=True, kw_only=True)
class Generate:
    """The lengths of texts with mode=generate: see docs/generation.md."""

    prompt_tokens: AtLeastOne = _shown(128, "mode=generate: number of random tokens in a prompt")
    new_tokens: Annotated[int, Meta(ge=2, le=MAX_COUNT)] = _shown(
        32, "mode=generate: number of tokens to generate after each prompt"
    )


_FOR_RATES = ("rate", "latency_ms", "percentile")
# Protocol -> the settings of `Server` that it does not use.
UNUSED = {
    **dict.fromkeys(vocab.Protocol, tuple(vars(Server()))),
    vocab.Protocol.server: (),
    vocab.Protocol.single_stream: (*_FOR_RATES, "max_delay_ms", "workers"),
    vocab.Protocol.multi_stream: _FOR_RATES,
    vocab.Protocol.offline: (*_FOR_RATES, "max_delay_ms"),
}


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """The settings that have the same names in a cell and on the command line. A new field here appears in both."""

    mode: vocab.Mode = _shown(help="train, infer or generate. Default: infer if requests are served, otherwise train")
    precision: vocab.Precision = _shown(help="number format that the network computes in")
    # With `scaling=weak` the command line's batch_size is that of each device.
    batch_size: AtLeastOne = _shown(help="samples in a batch, summed over all devices. Default: model.batch_size")
    devices: AtLeastOne = _shown(1, "number of devices that compute the cell")
    scaling: vocab.Scaling = _shown(
        vocab.Scaling.strong,
        "with several devices: strong divides batch_size among them, weak gives each device batch_size samples",
    )
    protocol: vocab.Protocol = _shown(
        help="what is timed. window and steps: steps; fit: epochs; target: training to a goal; all others: requests"
    )
    epochs: AtLeastOne = _shown(
        help="number of epochs. protocol=fit and target train them; others estimate their time. Default: model.epochs"
    )
    warmup: Count = setting(10, "protocol=steps: warm-up steps before the timed steps")
    steps: Steps = _shown(50, "protocol=steps: maximum number of timed steps")
    # additional steps, whose phases are timed; none with `fit`
    breakdown_s: NotNegative = setting(0.3, "seconds for timing the phases of steps. 0: phases are not timed")
    save_weights: bool = setting(
        False, "protocol=fit: whether to keep the trained weights beside the record, as safetensors"
    )
    # the framework's threads in each process; None: all cores, shared among `devices`
    threads: AtLeastOne | None = setting(
        None, "CPU threads to compute with. Default: all cores", column="asked_threads"
    )
    python: str | None = _shown(  # None: accelbench's own
        None, "Python environment of the cell: its folder, such as ../new/.venv, or its interpreter"
    )
    seed: Annotated[int, Meta(ge=0, le=MAX_SEED)] = _shown(0, "random seed for weights, data order and inputs")
    repeat: Count = _shown(0, "index of the process: repeats=5 gives a cell five processes, 0 to 4")
    # limit of the cell's process; the minimum number of steps for a published speed is measured in any case
    budget_s: NotNegative = setting(
        0.0, "protocol=window or steps: seconds that a cell should take. A slow cell gets fewer steps. 0: no limit"
    )
    # After this time the cell's process is killed. Not part of the id.
    timeout_s: Positive = setting(600.0, "time limit of a cell in seconds; a cell that takes longer ends as `timeout`")
    window: Window = Window()
    server: Server = Server()
    target: Target = Target()
    generate: Generate = Generate()


# Protocol -> the attributes of a cell that not every protocol uses.
BOUNDS = {
    vocab.Protocol.window: ["window"],
    vocab.Protocol.steps: ["warmup", "steps"],
    **dict.fromkeys(vocab.SERVING, ["server"]),
    vocab.Protocol.target: ["target"],
}


@dataclass(frozen=True, kw_only=True)
class Cell(RunSettings):
    """One combination of settings. It has all settings that affect the measurement, and only these."""

    suite: str  # name of the cell's sweep; not part of the id
    engine: vocab.Engine
    device: vocab.Device
    model: ModelSpec
    data: DataSpec
    xla_processes: bool = _shown(
        False,
        "pytorch or lightning on a TPU: whether each chip has its own process instead of one for all",
    )
    options: Options = Options()
    keras: KerasSettings | None = None  # None if the engine is not Keras
    trainer: TrainerSettings | None = None  # None if the network is not a LightningModule

    def settings(self) -> dict[str, Any]:
        """Returns the settings from which the id is computed, as plain JSON values.

        `suite`, `timeout_s` and the settings that the cell's protocol or mode does not use are left out. Some settings
        that were added later are left out if they have their defaults, so that older cells keep their ids.
        """
        return _settings(plain(self))

    @cached_property
    def id(self) -> str:
        """The first 12 hexadecimal digits of the digest of `settings()`, with seed and repeat. Slow to compute."""
        return digest(self.settings())[:12]

    def key_without(self, names: Collection[str]) -> str:
        """Returns a key for grouping cells. Cells that differ only in the settings `names` have the same key."""
        return canonical_json({name: value for name, value in self.settings().items() if name not in names})

    @property
    def own_code(self) -> dict[str, str]:
        """Maps a setting to the dotted path of the user's code that it names: `model.loss` to `nets.my_loss`."""
        return self.model.own_code | ({"data.target": self.data.target} if self.data.target else {})

    @property
    def arguments(self) -> list[tuple[str, Any]]:
        """The names and values of all arguments: of the network, of its batches and of its data. For people to read."""
        return [*self.model.args.items(), *self.model.batch_args.items(), *self.data.args.items()]

    @property
    def batch_size_per_device(self) -> int:
        """Samples per step on one device. `grid.support` skips cells whose batch is not divisible by the devices."""
        return self.batch_size // self.devices

    @property
    def num_instances(self) -> int:
        """The number of instances of the network in one process. The instances share the threads of the process."""
        return self.server.workers if self.protocol in vocab.SERVING else 1

    @property
    def num_processes(self) -> int:
        """The number of processes that compute the cell: one process per device, or one process for all devices."""
        one_per_device = self.engine in vocab.ON_TORCH and (self.device not in vocab.XLA or self.xla_processes)
        return self.devices if one_per_device else 1

    @property
    def label(self) -> str:
        """A short name for people, such as `cnn-cpu-bf16-b128-train`, with all settings that differ from defaults."""
        # `plan_file.labels` adds settings whose defaults conf/ and params.yaml decide, if cells differ in them.
        model = self.model
        # The library and the engine of a LightningModule have the same word.
        has_engine = self.engine not in (vocab.Engine.pytorch, model.library)
        protocols = {vocab.Protocol.window: "", vocab.Protocol.steps: f"{self.steps}steps"}
        parts = [
            model.name,
            self.device if self.devices == 1 else f"{self.device}x{self.devices}",
            self.precision,
            f"b{self.batch_size}",
            self.mode,
            *self.options.enabled,
            self.engine if has_engine else "",
            protocols.get(self.protocol, self.protocol),
            f"{self.target.threshold:g}" if self.protocol == vocab.Protocol.target else "",
            *(_label_word(path, self) for path in LABELLED),
            PurePath(model.weights).name if model.weights != vocab.Weights.none else "",
            folder_name(self.python) if self.python else "",
        ]
        if model.library != vocab.Library.accelbench:  # conf/ has the default arguments of accelbench's own networks
            parts += [argument_text(name, value) for name, value in self.arguments]
        # The rate is near the end, because a narrow terminal cuts the middle of a name.
        parts.append(f"{self.server.rate:g}rps" if self.protocol == vocab.Protocol.server else "")
        parts += [f"s{self.seed}" if self.seed else "", f"r{self.repeat}" if self.repeat else ""]
        return one_line("-".join(filter(None, parts)))


# The settings that a label has, if they differ from their defaults.
LABELLED = (
    "scaling",
    "xla_processes",
    "keras.jit_compile",
    "keras.steps_per_execution",
    "trainer.accumulate_grad_batches",
    "trainer.gradient_clip_val",
    "data.pipeline",
    "data.augment",
    "data.pinned",
    "threads",
    "model.task",
    "generate.prompt_tokens",
    "generate.new_tokens",
    "server.max_delay_ms",
    "server.workers",
)
_DECLARED = {one.path: one for one in declared(Cell)}


def _label_word(path: str, cell: Cell) -> str:
    """Returns a setting's word in a label, such as `jit_compile`, `pinned=false` or `2threads`; "" for a default."""
    name = _DECLARED[path].field.name
    value = _DECLARED[path].value(cell)
    if value is None or value == _DECLARED[path].field.default:
        return ""
    if isinstance(value, bool):
        return name if value else f"{name}=false"
    if isinstance(value, str):
        return value
    return f"{value:g}{name.removesuffix('s') if value == 1 else name}"


def id_of(values: Mapping[str, Any]) -> str:
    """Returns the `Cell.id` of a cell whose attributes in JSON are `values`. 100 and 100.0 give different ids."""
    return digest(_settings(values))[:12]


def _settings(values: Mapping[str, Any]) -> dict[str, Any]:
    of_protocols = {name for names in BOUNDS.values() for name in names}
    unused = {"suite", "timeout_s", *of_protocols.difference(BOUNDS.get(values["protocol"], ()))}
    if not values.get("budget_s") or values["protocol"] in vocab.EPOCHS:
        unused.add("budget_s")
    if values["mode"] != vocab.Mode.generate:
        unused.add("generate")
    settings = {name: value for name, value in values.items() if name not in unused}
    settings["model"], settings["data"] = model, data = dict(values["model"]), dict(values["data"])
    if "server" in settings:
        settings["server"] = {"generator": "own", **values["server"]}  # a setting of earlier releases
    # These settings were added later. They are left out at their defaults, so that older cells keep their ids.
    additions = [(settings, "python", None), (data, "train_images", None), (data, "pinned", True)]
    additions += [(model, "constant", False), (model, "collate", None), (model, "metric", None)]
    for group, name, usual in additions:
        if group.get(name) == usual:
            group.pop(name, None)
    return settings
