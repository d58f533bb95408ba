"""The schema of the configuration that Hydra composes; `to_cell` turns it into frozen cells."""

import copy
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any

from hydra.core.config_store import ConfigStore
from omegaconf import MISSING, DictConfig, OmegaConf

from accelbench.schema.cell import Cell, Options, TrainerSettings, Window
from accelbench.schema.vocab import (
    Allocator,
    Augment,
    Device,
    Engine,
    KerasBackend,
    Library,
    Mode,
    ModelOutput,
    Pipeline,
    Precision,
    Protocol,
    Scaling,
    Task,
    Weights,
)
from accelbench.schema.workload import DataSpec, ModelSpec
from accelbench.settings.executors import ExecutorConfig


class Optimizer(StrEnum):
    """How a model is trained."""

    adam = "adam"
    adamw = "adamw"
    sgd = "sgd"


class Retry(StrEnum):
    """Which cells with a record are run again."""

    none = "none"
    failed = "failed"


@dataclass
class EngineConfig:
    """conf/engine: `xla_processes` is for Lightning (`cell.Cell`), all others are for Keras (`cell.KerasSettings`)."""

    name: Engine = MISSING
    xla_processes: bool | None = None
    backend: KerasBackend | None = None
    jit_compile: bool | None = None
    steps_per_execution: int | None = None
    tpu: str | None = None


@dataclass
class DeviceConfig:
    """conf/device."""

    name: Device = MISSING


@dataclass
class ModelConfig:
    """conf/model: a network and how its study trains it; see `cell.ModelSpec`.

    For the user's own networks: `target` is the dotted path of the class; with `factory`, of any callable that makes a
    network. `weights` is a word of `Weights` or a path, `optimizer` a word of `Optimizer` or a dotted path.
    """

    name: str = MISSING
    library: Library = Library.accelbench
    network: str | None = None
    target: str | None = None
    factory: bool = ModelSpec.factory
    weights: str = Weights.none.value
    task: Task | None = None
    batch: str | None = None
    batch_args: dict[str, Any] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)
    loss: str | None = None
    samples: str | None = None
    tokens: str | None = None
    optimizer: str = Optimizer.adam.value
    learning_rate: float = 1e-3
    batch_size: int = 128
    epochs: int = 1
    constant: bool = ModelSpec.constant
    output: ModelOutput = ModelSpec.output
    input_shape: list[int] = field(default_factory=lambda: list(ModelSpec.input_shape))
    num_classes: int = ModelSpec.num_classes
    args: dict[str, Any] = field(default_factory=dict)


@dataclass
class DataConfig:
    """conf/data; see `cell.DataSpec`. `root` is the folder of the prepared data sets; no part of a cell.

    `image_size`, for `folder`: height and width of the images, in a cell an argument of the data.
    """

    name: str = MISSING
    pipeline: Pipeline = Pipeline.array
    num_workers: int = DataSpec.num_workers
    augment: Augment = Augment.none
    target: str | None = None
    args: dict[str, Any] = field(default_factory=dict)
    path: str | None = None
    image_size: int | None = None
    root: str | None = None


@dataclass
class SuiteConfig:
    """conf/suite: a sweep's name; its axes are in params.yaml."""

    name: str = MISSING
    title: str = ""
    study: str | None = None


@dataclass
class TrackingConfig:
    """conf/tracking."""

    name: str = MISSING


@dataclass
class TrainerConfig:
    """A mutable copy of `cell.TrainerSettings`."""

    accumulate_grad_batches: int = TrainerSettings.accumulate_grad_batches
    gradient_clip_val: float | None = TrainerSettings.gradient_clip_val


@dataclass
class WindowConfig:
    """The bounds of the window protocol: a mutable copy of `cell.Window`, since Hydra's schema can't be frozen."""

    warmup_steps: int = Window.warmup_steps
    warmup_s: float = Window.warmup_s
    measure_s: float = Window.measure_s
    width: float = Window.width
    block_s: float = Window.block_s
    latency_s: float = Window.latency_s
    latency_steps: int = Window.latency_steps


@dataclass
class RunConfig:
    """One run; `cell.Cell` explains the settings that make a cell, `cell.Options` its switches.

    Attributes:
        repeats: fresh processes per cell, numbered from `repeat`; each cell runs once before any runs again.
        profile: which values of params.yaml's `{quick: ..., full: ...}` are run; None: the `profile` of params.yaml.
        out: the folder for the records, whose plan gets the new cells in addition; None: a new one under runs/.
        retry: whether failed, timeout and killed cells of `out` are run again.
        quiet_s: seconds that a cell that other programs disturbed waits for a quiet machine, to be repeated; 0: none.
        verbose: whether to show what the cells' libraries print.
    """

    engine: EngineConfig = field(default_factory=EngineConfig)
    device: DeviceConfig = field(default_factory=DeviceConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    data: DataConfig = field(default_factory=DataConfig)
    suite: SuiteConfig = field(default_factory=SuiteConfig)
    tracking: TrackingConfig = field(default_factory=TrackingConfig)
    executor: ExecutorConfig = field(default_factory=ExecutorConfig)
    mode: Mode = MISSING
    precision: Precision = MISSING
    batch_size: int = MISSING
    devices: int = Cell.devices
    scaling: Scaling = Cell.scaling
    protocol: Protocol = MISSING
    epochs: int = MISSING
    warmup: int = Cell.warmup
    steps: int = Cell.steps
    breakdown_s: float = Cell.breakdown_s
    channels_last: bool = Options.channels_last
    compile: bool = Options.compile
    freeze: bool = Options.freeze
    cuda_graphs: bool = Options.cuda_graphs
    flush_denormals: bool = Options.flush_denormals
    allocator: Allocator = Options.allocator
    trainer: TrainerConfig = field(default_factory=TrainerConfig)
    save_weights: bool = False
    threads: int | None = None
    seed: int = 0
    repeat: int = 0
    repeats: int = 1
    timeout_s: float = 600.0
    window: WindowConfig = field(default_factory=WindowConfig)
    profile: str | None = None
    out: str | None = None
    retry: Retry = Retry.none
    quiet_s: float = 30.0
    verbose: bool = False


# Settings whose value is the name of a file in conf/<setting>/.
GROUPS = ("engine", "device", "model", "data", "suite", "tracking", "executor")


@dataclass(frozen=True, kw_only=True)
class SweepOptions:
    """Settings of a whole sweep, not of one cell."""

    suite: str
    title: str
    study: str | None
    profile: str | None
    tracking: str
    out: str | None
    retry: Retry
    data_root: str | None = None
    repeats: int = 1
    quiet_s: float = RunConfig.quiet_s
    verbose: bool = False
    executor: ExecutorConfig = field(default_factory=ExecutorConfig)


def differing_options(first: SweepOptions, second: SweepOptions) -> str:
    """The names of the options with different values, separated by commas; "" if all are equal.

    `title` and `study` come with the suite: they are not compared.
    """
    pairs = zip(asdict(first).items(), asdict(second).values(), strict=True)
    return ", ".join(
        name.replace("data_root", "data.root") for (name, a), b in pairs if a != b and name not in ("title", "study")
    )


def typed(composed: DictConfig) -> RunConfig:
    """The composed configuration as a `RunConfig` with plain values."""
    run = OmegaConf.to_object(composed)
    assert isinstance(run, RunConfig), "conf/config.yaml starts from the schema"
    return run


def updated(run: RunConfig, composed: DictConfig, names: Iterable[str]) -> RunConfig:
    """As `typed(composed)`, in a tenth of the time.

    Args:
        run: what `composed` was before some settings were changed.
        composed: the configuration.
        names: the changed settings, such as `model.args.width`; all of them were set before.
    """
    referring = [each.name for each in fields(RunConfig) if OmegaConf.is_interpolation(composed, each.name)]
    for name in [*names, *referring]:
        value = OmegaConf.select(composed, name)
        run = _replaced(run, name.split("."), OmegaConf.to_object(value) if OmegaConf.is_config(value) else value)
    return run


def _replaced(whole: Any, path: list[str], value: Any) -> Any:
    """A copy of a group of settings, a dataclass or a mapping, with the value at `path`."""
    name, *rest = path
    found = copy.copy(whole)
    settings = found if isinstance(found, dict) else vars(found)
    settings[name] = _replaced(settings[name], rest, value) if rest else value
    return found


def register() -> None:
    """Registers the schema with Hydra as `schema`, the first of conf/config.yaml's defaults."""
    ConfigStore.instance().store(name="schema", node=RunConfig)
