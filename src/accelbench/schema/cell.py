"""The settings of one measurement: a cell is one point of the grid, frozen, with a stable id."""

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
from accelbench.schema.setting import setting
from accelbench.schema.text import one_line
from accelbench.schema.workload import DataSpec, ModelSpec

MAX_ARGUMENT = 24  # characters of a value in a label
MAX_SEED = 2**32 - 1
MAX_STEPS = 1_000_000  # whose times a record keeps: one of more would be too large to be read (`serialize.MAX_MB`)
OTHER_ENGINE, OTHER_PROTOCOLS, OTHER_MODES = "other engines", "other protocols", "other modes"
Steps = Annotated[int, Meta(ge=1, le=MAX_STEPS)]
_shown = partial(setting, column=True)
_of_requests = partial(_shown, empty=OTHER_PROTOCOLS)
# The settings that a user chooses among; cells that differ in any other setting do different things.
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
    """Ways to make a network faster, each off by default: docs/engines.md. The last two are of the cell's process."""

    channels_last: bool = _shown(False, "whether the memory layout of images is channels last")
    compile: bool = _shown(False, "whether the network is compiled with torch.compile")
    freeze: bool = _shown(False, "whether the weights are folded into the network as constants (inference)")
    cuda_graphs: bool = _shown(False, "whether a step is replayed as a CUDA graph")
    flush_denormals: bool = _shown(False, "whether numbers near 0, which are slow on a CPU, are taken as 0")
    allocator: vocab.Allocator = _shown(vocab.Allocator.default, "the memory allocator of the process")

    @property
    def _flags(self) -> list[str]:
        return [name for name, value in vars(self).items() if value is True]

    @property
    def enabled(self) -> list[str]:
        """Words for the options that are on, in the order of their definition: their names, and the allocator's."""
        return self._flags + ([] if self.allocator == vocab.Allocator.default else [self.allocator.value])

    @property
    def of_network(self) -> list[str]:
        """The names of those that are on and change the network or how it is run."""
        return [name for name in self._flags if name != "flush_denormals"]

    @property
    def change_output(self) -> bool:
        """Whether the output may differ from the plain network's."""
        return bool(self._flags)


@dataclass(frozen=True, kw_only=True)
class KerasSettings:
    """How Keras runs a cell."""

    backend: vocab.KerasBackend = _shown(vocab.KerasBackend.tensorflow, "keras: its backend", empty=OTHER_ENGINE)
    jit_compile: bool = _shown(False, "keras: whether it compiles with XLA", empty=OTHER_ENGINE)
    steps_per_execution: AtLeastOne = _shown(1, "keras: steps in one call of the compiled function", empty=OTHER_ENGINE)
    tpu: str = setting("local", "keras: the TPU's name, local for this machine's")

    @property
    def non_defaults(self) -> list[str]:
        """Words for the settings that differ from their defaults; part of a cell's label."""
        backend = self.backend.value if self.backend != vocab.KerasBackend.tensorflow else ""
        steps = f"{self.steps_per_execution}steps_per_execution" if self.steps_per_execution > 1 else ""
        return [word for word in (backend, "jit_compile" if self.jit_compile else "", steps) if word]


@dataclass(frozen=True, kw_only=True)
class TrainerSettings:
    """How Lightning's Trainer runs the user's LightningModule; see Lightning's documentation."""

    accumulate_grad_batches: AtLeastOne = _shown(
        1, "batches of a training step of a LightningModule", empty="other networks"
    )
    gradient_clip_val: NotNegative | None = _shown(
        None, "the norm at which a LightningModule's gradients are cut", empty="they are not"
    )

    @property
    def non_defaults(self) -> list[str]:
        """Words for the settings that differ from their defaults; part of a cell's label."""
        words = [] if self.accumulate_grad_batches == 1 else [f"accumulate{self.accumulate_grad_batches}"]
        return words + ([] if self.gradient_clip_val is None else [f"clip{self.gradient_clip_val:g}"])


@dataclass(frozen=True, kw_only=True)
class Window:
    """The bounds of the `window` protocol: see docs/measuring.md.

    Warm-up goes on for up to ten times its minimum until step times have settled. `width` is half of the 95 % interval
    of the median block, as a share of the median.
    """

    warmup_steps: Count = setting(5, "steps before anything counts, at least")
    warmup_s: NotNegative = setting(0.3, "seconds before anything counts, at least")
    measure_s: Positive = setting(1.0, "seconds of blocks, at least; up to three times as many if the speed varies")
    width: Positive = setting(0.02, "blocks end when the interval is this narrow, as a share of the speed")
    block_s: Positive = setting(0.1, "seconds of a block, at least")
    latency_s: NotNegative = setting(0.7, "seconds of single steps, at most")
    latency_steps: Steps = setting(700, "single steps, at most")


@dataclass(frozen=True, kw_only=True)
class Server:
    """How requests arrive and how they are batched, of the protocols that serve: see docs/serving.md.

    `max_batch` and `max_delay_ms` are Triton's settings: a batch is computed once it is full, or once its oldest
    request has waited so long.
    """

    rate: Positive = _of_requests(50.0, "protocol=server: requests that arrive per second")
    latency_ms: Positive = _of_requests(
        50.0, "protocol=server: milliseconds that a request may take", column="limit_ms"
    )
    percentile: Annotated[float, Meta(gt=0.0, le=99.99)] = _of_requests(
        99.0,
        "protocol=server: the share of requests, in per cent, that is to be within latency_ms",
        column="limit_percentile",
    )
    duration_s: Positive = setting(20.0, "seconds for which requests arrive")
    max_batch: AtLeastOne | None = setting(None, "requests of a batch, at most; unless given, batch_size")
    max_delay_ms: NotNegative = _of_requests(0.0, "milliseconds that a request waits for others of its batch, at most")
    workers: AtLeastOne = _of_requests(1, "instances of the network, which share the threads")
    generator: vocab.Generator = setting(vocab.Generator.own, "protocol=server: accelbench's own")

    def words(self, protocol: vocab.Protocol) -> list[str]:
        """Words for settings that differ from their defaults, and for the rate; part of a cell's label."""
        rate = [f"{self.rate:g}rps"] if protocol == vocab.Protocol.server else []
        delay = [f"{self.max_delay_ms:g}ms"] if self.max_delay_ms else []
        return delay + ([f"{self.workers}workers"] if self.workers > 1 else []) + rate


ACCURACY, LOSS = "accuracy", "loss"  # metrics of a target; `metric` is `model.metric`


@dataclass(frozen=True, kw_only=True)
class Target:
    """What a training is to reach, of protocol=target: see docs/time-to-accuracy.md.

    It is evaluated on a part of the training set, which it does not train on; the test set is only reported.
    """

    accuracy: Share | None = setting(
        None,
        "protocol=target: the share of right answers to reach, such as 0.97",
        column="target_accuracy",
        empty="other metrics",
    )
    metric: str = _of_requests(
        ACCURACY,
        "protocol=target: accuracy, loss, metric (of model.metric), or a name that your LightningModule logs",
        column="target_metric",
    )
    value: Number | None = setting(
        None, "protocol=target: what another metric than accuracy is to reach", column="target_value", empty="none"
    )
    lower: bool | None = setting(
        None, "protocol=target: whether lower is better; unless given, of the loss, and of names with loss or error"
    )
    definition: vocab.Definition = _of_requests(
        vocab.Definition.passage,
        "protocol=target: passage, until the first evaluation that reaches it; fixed, all epochs and one evaluation",
        column="target_definition",
    )
    validation: Positive = setting(0.1, "protocol=target: the share of the training set to evaluate on")
    every: Positive = setting(1.0, "protocol=target: epochs between two evaluations, such as 0.25")
    every_steps: AtLeastOne | None = setting(None, "protocol=target: steps between two evaluations, instead of epochs")

    @property
    def threshold(self) -> float:
        """What the metric is to reach; `settings.to_cell` refuses a target without a value."""
        value = self.accuracy if self.metric == ACCURACY else self.value
        return math.nan if value is None else value

    @property
    def is_lower(self) -> bool:
        """Whether lower values are better."""
        name = self.metric.lower()
        return self.lower if self.lower is not None else any(word in name for word in ("loss", "error"))

    def is_met(self, value: float | None) -> bool:
        """Whether this value reaches it; None, of a loss that is not finite, does not."""
        return value is not None and (value <= self.threshold if self.is_lower else value >= self.threshold)

    @property
    def text(self) -> str:
        """Such as `accuracy at least 0.97`."""
        return f"{self.metric} at {'most' if self.is_lower else 'least'} {self.threshold:g}"


@dataclass(frozen=True, kw_only=True)
class Generate:
    """What a language model generates, of mode=generate: see docs/generation.md."""

    prompt_tokens: AtLeastOne = _shown(128, "mode=generate: tokens of each prompt, drawn at random", empty=OTHER_MODES)
    new_tokens: Annotated[int, Meta(ge=2, le=MAX_COUNT)] = _shown(
        32, "mode=generate: tokens that continue each prompt, all of them", empty=OTHER_MODES
    )


_FOR_RATES = ("rate", "latency_ms", "percentile", "generator")
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
    """The settings of a cell that the command line has under the same names. Whatever is added here is one of both."""

    mode: vocab.Mode = _shown(help="train, infer or generate. Default: train, or infer where requests are served")
    precision: vocab.Precision = _shown(help="number format that the network computes in")
    # on the command line with `scaling=weak`, of each device
    batch_size: AtLeastOne = _shown(help="samples of a batch, of all devices together. Default: the model's")
    devices: AtLeastOne = _shown(1, "how many devices compute the cell")
    scaling: vocab.Scaling = _shown(
        vocab.Scaling.strong,
        "of several devices: strong shares the batch among them, weak gives each a batch of that size",
        empty="one device",
    )
    protocol: vocab.Protocol = _shown(
        help="what is timed: steps for some seconds (window), steps, epochs (fit), a training to a target, or requests"
    )
    epochs: AtLeastOne = _shown(
        help="epochs to train; other protocols than fit and target extrapolate to them. Default: the model's"
    )
    warmup: Count = setting(10, "protocol=steps: steps before the timed ones")
    steps: Steps = _shown(50, "protocol=steps: how many steps, at most", empty="protocols other than `steps`")
    # of additional steps whose phases are timed. `fit` has none.
    breakdown_s: NotNegative = setting(0.3, "seconds for the phases of a step; 0: none")
    save_weights: bool = setting(False, "protocol=fit: keep the trained weights beside the record, as safetensors")
    # of the framework in each process; None: all cores, shared among `devices`
    threads: AtLeastOne | None = setting(
        None, "CPU threads to compute with. Default: all cores", column="asked_threads", empty="all cores"
    )
    python: str | None = _shown(  # None: accelbench's own
        None, "another environment: its folder, as ../new/.venv, or its interpreter", empty="accelbench's"
    )
    seed: Annotated[int, Meta(ge=0, le=MAX_SEED)] = _shown(0, "random seed for weights, data order and inputs")
    repeat: Count = _shown(0, "the number of the process of the cell")
    # of its process; the fewest steps that are published are measured anyway
    budget_s: NotNegative = setting(
        0.0, "seconds for a cell; slow steps get less warm-up and fewer steps; 0: no limit. protocol=fit ignores it"
    )
    # after which the cell's process is killed; not part of the id
    timeout_s: Positive = setting(600.0, "seconds after which a cell is ended, and its record is `timeout`")
    window: Window = Window()
    server: Server = Server()
    target: Target = Target()
    generate: Generate = Generate()


# Protocol -> the attributes of a cell that not all protocols use.
BOUNDS = {
    vocab.Protocol.window: ["window"],
    vocab.Protocol.steps: ["warmup", "steps"],
    **dict.fromkeys(vocab.SERVING, ["server"]),
    vocab.Protocol.target: ["target"],
}


def unused_by(protocol: vocab.Protocol) -> set[str]:
    """The attributes of a cell that only other protocols use."""
    return {name for names in BOUNDS.values() for name in names} - set(BOUNDS.get(protocol, ()))


@dataclass(frozen=True, kw_only=True)
class Cell(RunSettings):
    """One point of the grid: everything that decides what is measured, and nothing else."""

    suite: str  # the sweep that the cell belongs to; not part of the id
    engine: vocab.Engine
    device: vocab.Device
    model: ModelSpec
    data: DataSpec
    xla_processes: bool = _shown(
        False, "pytorch and lightning on a TPU: a process for each core", empty="other devices and engines"
    )
    options: Options = Options()
    keras: KerasSettings | None = None  # None for another engine
    trainer: TrainerSettings | None = None  # None for another network than a LightningModule

    def settings(self) -> dict[str, Any]:
        """The settings that the id is made of, as plain JSON values: all but `suite` and `timeout_s`.

        Attributes that only another protocol uses are left out: changing them must not change this cell's id.
        """
        return _settings(plain(self))

    @cached_property
    def id(self) -> str:
        """12 hexadecimal digits: the digest of the settings, seed and repeat included. It takes long to compute."""
        return digest(self.settings())[:12]

    def key_without(self, names: Collection[str]) -> str:
        """Equal for cells that differ in no other settings than these."""
        return canonical_json({name: value for name, value in self.settings().items() if name not in names})

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
    def num_instances(self) -> int:
        """How many instances of the network compute in one process, which divide its threads among them."""
        return self.server.workers if self.protocol in vocab.SERVING else 1

    @property
    def num_processes(self) -> int:
        """How many processes compute the cell: one per device, or one that drives them all."""
        one_per_device = self.engine in vocab.ON_TORCH and (self.device not in vocab.XLA or self.xla_processes)
        return self.devices if one_per_device else 1

    @property
    def label(self) -> str:
        """A short name for people, such as `cnn-cpu-bf16-b128-train`, with the settings that are not the defaults."""
        # `plan_file.labels` adds those in which cells differ whose defaults conf/ and params.yaml decide.
        return self.label_in(folder_name(self.python) if self.python else "")

    def label_in(self, environment: str) -> str:
        """The same, with another name of the environment that it runs in."""
        model, data = self.model, self.data
        threads = ""
        if self.threads:
            threads = "1thread" if self.threads == 1 else f"{self.threads}threads"
        parts = [
            model.name,
            self.device if self.devices == 1 else f"{self.device}x{self.devices}",
            self.precision,
            f"b{self.batch_size}",
            self.mode,
            *self.options.enabled,
            self.scaling if self.scaling == vocab.Scaling.weak else "",
            "processes" if self.xla_processes else "",
            # A LightningModule's library and its engine are one word.
            self.engine if self.engine not in (vocab.Engine.pytorch, model.library) else "",
            *(self.keras.non_defaults if self.keras else []),
            *(self.trainer.non_defaults if self.trainer else []),
            data.pipeline if data.pipeline != vocab.Pipeline.array else "",
            data.augment if data.augment != vocab.Augment.none else "",
            "" if data.pinned else "pageable",
            {vocab.Protocol.window: "", vocab.Protocol.steps: f"{self.steps}steps"}.get(self.protocol, self.protocol),
            f"{self.target.threshold:g}" if self.protocol == vocab.Protocol.target else "",
            threads,
            PurePath(model.weights).name if model.weights != vocab.Weights.none else "",
            model.task or "",
            f"{self.generate.prompt_tokens}+{self.generate.new_tokens}tokens"
            if self.mode == vocab.Mode.generate
            else "",
            environment,
        ]
        if model.library != vocab.Library.accelbench:  # of accelbench's own networks, conf/ has the default arguments
            parts += [argument_text(name, value) for name, value in self.arguments]
        # Near the end, so that a narrow terminal, which takes out a name's middle, shows the rate.
        parts += self.server.words(self.protocol) if self.protocol in vocab.SERVING else []
        parts += [f"s{self.seed}" if self.seed else "", f"r{self.repeat}" if self.repeat else ""]
        return one_line("-".join(filter(None, parts)))


def id_of(values: Mapping[str, Any]) -> str:
    """`Cell.id` of the cell with these attributes, as JSON has them: 100 and 100.0 are two values there."""
    return digest(_settings(values))[:12]


def _settings(values: Mapping[str, Any]) -> dict[str, Any]:
    unused = {"suite", "timeout_s", *unused_by(values["protocol"])}
    if not values.get("budget_s") or values["protocol"] in vocab.EPOCHS:
        unused.add("budget_s")
    if values["mode"] != vocab.Mode.generate:
        unused.add("generate")
    settings = {name: value for name, value in values.items() if name not in unused}
    settings["model"], settings["data"] = model, data = dict(values["model"]), dict(values["data"])
    # These were added later, and are left out where they change nothing, so that older cells keep their ids.
    additions = [(settings, "python", None), (data, "train_images", None), (data, "pinned", True)]
    additions += [(model, "constant", False), (model, "collate", None), (model, "metric", None)]
    for group, name, usual in additions:
        if group.get(name) == usual:
            group.pop(name, None)
    return settings
