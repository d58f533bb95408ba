"""The settings of one measurement, and the words that settings and records use.

A cell is a frozen object with one combination of settings and a stable id. On the command line and in files, a word,
such as `Engine.keras`, is written as its name.
"""

import json
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, partial
from pathlib import PurePath
from typing import Annotated, Any

from msgspec import Meta

from accelbench.schema.serialize import (
    MAX_COUNT,
    AtLeastOne,
    Count,
    NotNegative,
    Number,
    Positive,
    Share,
    canonical_json,
    digest,
    plain,
)
from accelbench.schema.setting import declared, setting
from accelbench.schema.text import one_line

# The hardware that computes: `gpu` is NVIDIA's. `xla_cpu` is the CPU, driven by torch_xla, the software of TPUs.
Device = StrEnum("Device", ["cpu", "gpu", "tpu", "xla_cpu"])
# Devices that torch_xla drives. If torch_tpu is installed, its driver replaces torch_xla's for `tpu`.
XLA = frozenset({Device.tpu, Device.xla_cpu})
# Devices that share one CPU: several of them divide its cores.
SHARE_ONE_CPU = frozenset({Device.cpu, Device.xla_cpu})

# The framework that runs a cell. `pytorch`: a bare loop; `lightning`: Lightning's Trainer.
Engine = StrEnum("Engine", ["pytorch", "lightning", "keras", "onnxruntime", "openvino", "aotinductor"])
# Engines that compute with PyTorch itself, on any device.
ON_TORCH = frozenset({Engine.pytorch, Engine.lightning})
# Engines that run an exported PyTorch network: inference on the CPU.
EXPORTING = frozenset({Engine.onnxruntime, Engine.openvino, Engine.aotinductor})

# The framework under Keras.
KerasBackend = StrEnum("KerasBackend", ["tensorflow"])

# Where a network is defined: in accelbench, in another library, or in a class of the user. For `custom`, a
# torch.nn.Module, accelbench makes the training step. For `lightning`, a LightningModule, the module's own training
# step, optimisers and hooks run.
Library = StrEnum("Library", ["accelbench", "timm", "torchvision", "transformers", "custom", "lightning"])
USERS_OWN = frozenset({Library.custom, Library.lightning})  # libraries whose networks are the user's code

# A network's initial weights: `none` draws them from the seed, `pretrained` downloads them from the library.
Weights = StrEnum("Weights", ["none", "pretrained"])
# The purpose of a network of the library transformers. It decides the network's head and loss.
Task = StrEnum("Task", ["classification", "masked_lm", "causal_lm"])
# The output of a network: `logits` of shape (batch, classes), or `any` structure of tensors.
ModelOutput = StrEnum("ModelOutput", ["logits", "any"])
# How the batch grows with the devices: `strong` divides one batch among them, `weak` gives each device a whole batch.
Scaling = StrEnum("Scaling", ["strong", "weak"])

# Number formats. `fp16` to `fp64` hold weights and computation. `*_mixed` computes in 16 bits with fp32 weights. `int8`
# multiplies integers where the engine can, and computes the rest in fp32. It is quantised statically, with value ranges
# of the cell's data.
Precision = StrEnum("Precision", ["fp16", "bf16", "fp32", "tf32", "fp64", "fp16_mixed", "bf16_mixed", "int8"])
# Precisions that need a quantised network; only engines that export the network quantise it.
QUANTIZED = frozenset({Precision.int8})
NOT_QUANTIZED = tuple(word for word in Precision if word not in QUANTIZED)

# `generate`: a language model continues prompts, token by token.
Mode = StrEnum("Mode", ["train", "infer", "generate"])
STEP_MODES = (Mode.train, Mode.infer)  # modes of any network

# The memory allocator of a cell's process. `glibc_reuse`: glibc's, set to keep large freed blocks for the next step.
Allocator = StrEnum("Allocator", ["default", "jemalloc", "tcmalloc", "glibc_reuse"])

# What decides how many steps are measured. `window`: bounds in seconds and a target precision (`Window`). `steps`:
# a fixed number. `fit`: whole epochs. `target`: training until a metric is reached. The others serve requests, as the
# scenarios of MLPerf Inference: `server` at an arrival rate, `single_stream` one request after another, `multi_stream`
# several at once, one group after another, `offline` all at once.
Protocol = StrEnum(
    "Protocol", ["window", "steps", "fit", "target", "server", "single_stream", "multi_stream", "offline"]
)
EPOCHS = frozenset({Protocol.fit, Protocol.target})  # protocols that train whole epochs
# When a target is reached. `passage`: at the first evaluation that meets it. `fixed`: at the end of a training whose
# length was fixed in advance.
Definition = StrEnum("Definition", ["passage", "fixed"])
# What a process that trains to a target does, in this order: `start` is from the fork of the process until the engine
# begins; `test` is the last evaluation, on the test set.
Span = StrEnum("Span", ["start", "data", "build", "train", "evaluate", "test"])
SERVING = frozenset({Protocol.server, Protocol.single_stream, Protocol.multi_stream, Protocol.offline})

# How batches are made. From a prepared data set: `array` gathers decoded images, `jpeg` decodes picture files in worker
# processes. From random images: `host` copies ready batches to the device at each step, `device` keeps ready batches on
# the device, `fresh` draws new ones at each step.
Pipeline = StrEnum("Pipeline", ["array", "jpeg", "host", "device", "fresh"])
RANDOM_IMAGE_PIPELINES = (Pipeline.host, Pipeline.device, Pipeline.fresh)
RANDOM = "random"  # the name of the data set without files
OWN_BATCHES = "own batches"  # the data's name in tables for batches of `model.batch` or of `measure`
FOLDER, ARRAYS = "folder", "arrays"  # the data sets of the user's pictures by class, and of the user's arrays
MODULE = "module"  # the data set of a user's LightningDataModule

# How training images are varied on the device: `flip` mirrors at random; `flip_shift` also shifts by up to 1/8.
Augment = StrEnum("Augment", ["none", "flip", "flip_shift"])

# How a cell ended. Every status but `ok` has a reason. `skipped`: the machine or the engine does not support the cell.
# `failed`: it raised an exception. `oom`: it ran out of memory. `timeout`: it had no result within its time limit.
# `killed`: a signal ended it. `invalid`: it ran, but its numbers are wrong, such as when another device computed.
Status = StrEnum("Status", ["ok", "skipped", "failed", "oom", "timeout", "killed", "invalid"])
# If a cell ended with one of these, its sweep exits with status 1.
UNEXPECTED = frozenset({Status.failed, Status.oom, Status.timeout, Status.killed, Status.invalid})
# Cells that `retry=failed` measures again.
RETRIED = frozenset({Status.failed, Status.timeout, Status.killed})

# Why a measurement of blocks ended. `precise`: the target precision (`Window.width`) is reached. `noisy`: more blocks
# would not reach it in time. `limit`: the window's limit is reached. `fixed`: the fixed number of steps is done.
# `budget`: the cell's `budget_s` is used up. `timeout`: `timeout_s` was near, so only a part was measured.
Stop = StrEnum("Stop", ["precise", "noisy", "limit", "fixed", "budget", "timeout"])

# The parts of a step's wall time. `framework` is the time outside of all other parts. Some devices record a step and
# then run it as a whole: their steps have `trace` (recording) and `execute` (launching and running) instead of
# `forward`, `backward` and `optimizer`.
Phase = StrEnum(
    "Phase",
    ["data_wait", "copy_in", "forward", "backward", "optimizer", "trace", "execute", "copy_out", "framework"],
)

Provenance = StrEnum("Provenance", ["measured", "estimated"])
# What limits a step's speed: arithmetic, memory traffic, operator launches, waiting for data, or copying it.
Bound = StrEnum("Bound", ["compute", "memory", "launch", "data", "copy"])

# Whether a percentile of latencies is at most its limit. `unknown`: neither answer is sure at 99 %.
Verdict = StrEnum("Verdict", {"passes": "sure pass", "fails": "sure fail", "unknown": "can't tell"})

# Data set -> the shape of its prepared images, unless params.yaml has another one.
SHAPES: Mapping[str, tuple[int, ...]] = {
    "mnist": (28, 28),
    "fashion_mnist": (28, 28),
    "cifar10": (3, 32, 32),
    "cats_vs_dogs": (3, 224, 224),
}
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


# The usual names of an environment's folder. The folder above has the better name.
USUAL = (".venv", "venv", ".env", "env")


def folder_name(python: str) -> str:
    """Shortens the path of an environment or of an interpreter to a name, such as `/home/me/new/.venv` to `new`."""
    path = PurePath(python)
    return (path.parent if path.name in USUAL else path).name or python


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """A network and how it is trained."""

    # the network's name in labels and tables
    name: str = setting(help="name of the network, as accelbench, timm, torchvision or transformers calls it")
    library: Library = setting(Library.accelbench, "library of the network; model=... sets it", column=True)
    # the name in its library, or the dotted path of the user's class; None if it equals `name`
    network: str | None = setting(
        None,
        "name of the network in its library, such as mlp for model.name=mlp_cifar10. Default: model.name",
    )
    factory: bool = setting(False, "whether model.target may be a function without a return annotation")
    weights: str = setting(
        Weights.none.value,
        "none (random weights), pretrained, or the path of a .safetensors file",
        column=True,
    )
    # arguments of the network's constructor, such as dropout; for `transformers`, arguments of the configuration
    args: dict[str, Any] = setting(
        factory=dict, help="arguments of the network; with -m, model.args.width=64,128 measures both"
    )
    task: Task | None = setting(
        None, "model=transformers: task of the network, which decides its head and loss"
    )
    # for `custom`, a function of the number of samples and `batch_args`; None for images
    batch: str | None = setting(
        None, "your own function that makes a batch: make_batch(batch_size, **batch_args)"
    )
    collate: str | None = setting(
        None,
        "your own function that joins batches of one sample (requests) to one batch: collate([batch, ...])",
    )
    # for `transformers`, arguments of accelbench's own function that makes batches
    batch_args: dict[str, Any] = setting(
        factory=dict, help="arguments of model.batch; with -m, model.batch_args.seq_len=128,512 measures both"
    )
    # if empty, the network gets the keys that its `forward` takes
    inputs: tuple[str, ...] = setting((), "keys of the batch whose values are the network's arguments")
    # None: the loss of the task.
    loss: str | None = setting(None, "your own loss function: loss(output, batch)")
    metric: str | None = setting(
        None, "protocol=target: your own function metric(output, batch) -> mean of the batch"
    )
    # If `samples` is None, the first dimension of the batch's first tensor counts. If `tokens` is None, there are none.
    samples: str | None = setting(None, "your own function that counts the samples of a batch")
    tokens: str | None = setting(None, "your own function that counts the tokens of a batch")
    optimizer: str = setting("adam", "adam, adamw, sgd, or your own function, called with the parameters")
    learning_rate: Positive = setting(1e-3, "learning rate of adam, adamw or sgd")
    # true for example for an empty network, which shows the cost of a step
    constant: bool = setting(False, "whether the network's output may be the same for all inputs")
    # `any` only for `custom`, in inference or with a loss
    output: ModelOutput = setting(
        ModelOutput.logits, "what the network returns: logits of classes, or any other output"
    )
    # input_shape and num_classes are for random images; a prepared data set defines both itself
    input_shape: tuple[AtLeastOne, ...] = setting(
        (28, 28),
        "shape of one sample without a data set, such as 3x224x224",
        column=True,
    )
    num_classes: AtLeastOne = setting(10, "data=random: number of classes of the random labels")

    @property
    def word(self) -> str:
        """The value of the setting `model` for this network: its name if it is accelbench's own, else the library."""
        return self.definition if self.library == Library.accelbench else self.library

    @property
    def definition(self) -> str:
        """The network's name in its library."""
        return self.network or self.name

    @property
    def weights_file(self) -> str | None:
        """The path of the user's file with the initial weights. None if there is no such file."""
        return None if self.weights in list(Weights) else self.weights

    @property
    def own_code(self) -> dict[str, str]:
        """Maps a setting to the dotted path of the user's code that it names: `model.loss` to `nets.my_loss`."""
        paths = {
            name: getattr(self, name) for name in ("batch", "collate", "loss", "metric", "samples", "tokens")
        }
        paths["target"] = self.definition if self.library in USERS_OWN else None
        paths["optimizer"] = self.optimizer if "." in self.optimizer else None
        return {f"model.{name}": path for name, path in paths.items() if path is not None}

    def is_own(self, definition: str) -> bool:
        """Whether this is accelbench's own network of the name `definition`."""
        return (self.library, self.definition) == (Library.accelbench, definition)


@dataclass(frozen=True, kw_only=True)
class DataSpec:
    """A data set and how its batches are made."""

    name: str  # name of the prepared data set
    # for `module`, `target` is the class's dotted path, and `args` are the arguments of its constructor
    target: str | None = setting(None, "dotted path of your own LightningDataModule")
    args: dict[str, Any] = setting(factory=dict, help="arguments of data.target")
    path: str | None = setting(None, "path of your pictures (data=folder) or arrays (data=arrays)")
    pipeline: Pipeline = setting(
        Pipeline.array,
        "source of batches. array, jpeg: data set; host: host memory; device: device memory; fresh: made in each step",
        column=True,
    )
    num_workers: AtLeastOne = setting(2, "data.pipeline=jpeg: processes that decode pictures", column=True)
    augment: Augment = setting(
        Augment.none, "how training images are randomly varied on the device", column=True
    )
    pinned: bool = setting(True, "device=gpu: whether batches are copied from pinned memory")
    train_images: AtLeastOne | None = setting(
        None, "number of training images to use, counted from the first. Default: all", column=True
    )


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
    allocator: Allocator = _shown(Allocator.default, "memory allocator of the cell's process")

    @property
    def _flags(self) -> list[str]:
        return [name for name, value in vars(self).items() if value is True]

    @property
    def enabled(self) -> list[str]:
        """The names of the options that are on, in the order of their definition. A chosen allocator comes last."""
        return self._flags + ([] if self.allocator == Allocator.default else [self.allocator])

    @property
    def of_network(self) -> list[str]:
        """The names of the enabled options that change the network, or change how it runs."""
        return [name for name in self._flags if name != "flush_denormals"]


@dataclass(frozen=True, kw_only=True)
class KerasSettings:
    """How Keras runs a cell."""

    backend: KerasBackend = _shown(KerasBackend.tensorflow, "keras: framework that computes")
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
    measure_s: Positive = setting(
        1.0, "minimum seconds of all blocks (groups of steps). Maximum: three times as long"
    )
    width: Positive = setting(
        0.02, "measuring ends when half of the 95 % interval, divided by the median, is at most this number"
    )
    block_s: Positive = setting(0.1, "minimum seconds of a block of steps")
    latency_s: NotNegative = setting(
        0.7, "maximum seconds of all steps that are timed one by one, for the latency"
    )
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
    max_delay_ms: NotNegative = _shown(
        0.0, "maximum milliseconds that a request waits for its batch to fill up"
    )
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
        None,
        "protocol=target: whether a lower value is better. Default: true if target.metric contains loss or error",
    )
    definition: Definition = _shown(
        Definition.passage,
        "protocol=target: end of the training: passage (the target is reached) or fixed (all epochs are over)",
        column="target_definition",
    )
    validation: Positive = setting(
        0.1, "protocol=target: share of the training set that is kept for evaluations"
    )
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
    **dict.fromkeys(Protocol, tuple(vars(Server()))),
    Protocol.server: (),
    Protocol.single_stream: (*_FOR_RATES, "max_delay_ms", "workers"),
    Protocol.multi_stream: _FOR_RATES,
    Protocol.offline: (*_FOR_RATES, "max_delay_ms"),
}


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """The settings that have the same names in a cell and on the command line. A new field here appears in both."""

    mode: Mode = _shown(
        help="train, infer or generate. Default: infer if requests are served, otherwise train"
    )
    precision: Precision = _shown(help="number format that the network computes in")
    # With `scaling=weak` the command line's batch_size is that of each device.
    batch_size: AtLeastOne = _shown(
        help="samples in a batch, summed over all devices. Default: model.batch_size"
    )
    devices: AtLeastOne = _shown(1, "number of devices that compute the cell")
    scaling: Scaling = _shown(
        Scaling.strong,
        "with several devices: strong divides batch_size among them, weak gives each device batch_size samples",
    )
    protocol: Protocol = _shown(
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
    seed: Annotated[int, Meta(ge=0, le=MAX_SEED)] = _shown(
        0, "random seed for weights, data order and inputs"
    )
    repeat: Count = _shown(0, "index of the process: repeats=5 gives a cell five processes, 0 to 4")
    # limit of the cell's process; the minimum number of steps for a published speed is measured in any case
    budget_s: NotNegative = setting(
        0.0,
        "protocol=window or steps: seconds that a cell should take. A slow cell gets fewer steps. 0: no limit",
    )
    # After this time the cell's process is killed. Not part of the id.
    timeout_s: Positive = setting(
        600.0, "time limit of a cell in seconds; a cell that takes longer ends as `timeout`"
    )
    window: Window = Window()
    server: Server = Server()
    target: Target = Target()
    generate: Generate = Generate()


# Protocol -> the attributes of a cell that not every protocol uses.
BOUNDS = {
    Protocol.window: ["window"],
    Protocol.steps: ["warmup", "steps"],
    **dict.fromkeys(SERVING, ["server"]),
    Protocol.target: ["target"],
}


@dataclass(frozen=True, kw_only=True)
class Cell(RunSettings):
    """One combination of settings. It has all settings that affect the measurement, and only these."""

    suite: str  # name of the cell's sweep; not part of the id
    engine: Engine
    device: Device
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
        return self.server.workers if self.protocol in SERVING else 1

    @property
    def num_processes(self) -> int:
        """The number of processes that compute the cell: one process per device, or one process for all devices."""
        one_per_device = self.engine in ON_TORCH and (self.device not in XLA or self.xla_processes)
        return self.devices if one_per_device else 1

    @property
    def label(self) -> str:
        """A short name for people, such as `cnn-cpu-bf16-b128-train`, with all settings that differ from defaults."""
        # `plan_file.labels` adds settings whose defaults conf/ and params.yaml decide, if cells differ in them.
        model = self.model
        # The library and the engine of a LightningModule have the same word.
        has_engine = self.engine not in (Engine.pytorch, model.library)
        protocols = {Protocol.window: "", Protocol.steps: f"{self.steps}steps"}
        parts = [
            model.name,
            self.device if self.devices == 1 else f"{self.device}x{self.devices}",
            self.precision,
            f"b{self.batch_size}",
            self.mode,
            *self.options.enabled,
            self.engine if has_engine else "",
            protocols.get(self.protocol, self.protocol),
            f"{self.target.threshold:g}" if self.protocol == Protocol.target else "",
            *(_label_word(path, self) for path in LABELLED),
            PurePath(model.weights).name if model.weights != Weights.none else "",
            folder_name(self.python) if self.python else "",
        ]
        # conf/ has the default arguments of accelbench's own networks.
        if model.library != Library.accelbench:
            parts += [argument_text(name, value) for name, value in self.arguments]
        # The rate is near the end, because a narrow terminal cuts the middle of a name.
        parts.append(f"{self.server.rate:g}rps" if self.protocol == Protocol.server else "")
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
    if not values.get("budget_s") or values["protocol"] in EPOCHS:
        unused.add("budget_s")
    if values["mode"] != Mode.generate:
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
