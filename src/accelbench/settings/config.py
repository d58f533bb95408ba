"""The configuration's schema, and the one step from it to frozen cells."""

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from hydra.core.config_store import ConfigStore
from omegaconf import MISSING

from accelbench.schema.cell import Cell, DataSpec, ModelSpec, Options, Window
from accelbench.schema.vocab import (
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


class Optimizer(StrEnum):
    """How a model is trained."""

    adam = "adam"
    sgd = "sgd"


class Retry(StrEnum):
    """Which cells that have a record are run again."""

    none = "none"
    failed = "failed"


@dataclass
class EngineConfig:
    """conf/engine: `xla_processes` is Lightning's (see `cell.Cell`), the others Keras' (see `cell.KerasSettings`)."""

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
    """conf/model: a network and the study's way to train it.

    `target` is the dotted path of a class of the user's own, for the library `custom`; see `cell.ModelSpec` for the
    others.
    """

    name: str = MISSING
    library: Library = Library.accelbench
    network: str | None = None
    target: str | None = None
    weights: Weights = Weights.none
    optimizer: Optimizer = Optimizer.adam
    learning_rate: float = 1e-3
    batch_size: int = 128
    epochs: int = 1
    input_shape: list[int] = field(default_factory=lambda: list(ModelSpec.input_shape))
    num_classes: int = ModelSpec.num_classes
    args: dict[str, Any] = field(default_factory=dict)


@dataclass
class DataConfig:
    """conf/data; see `cell.DataSpec`."""

    name: str = MISSING
    pipeline: Pipeline = Pipeline.array
    num_workers: int = DataSpec.num_workers
    augment: Augment = Augment.none


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
class WindowConfig:
    """The bounds of the window protocol; see `cell.Window`, which is frozen as Hydra's schema can't be."""

    warmup_steps: int = Window.warmup_steps
    warmup_s: float = Window.warmup_s
    measure_s: float = Window.measure_s
    width: float = Window.width
    block_s: float = Window.block_s
    latency_s: float = Window.latency_s
    latency_steps: int = Window.latency_steps


@dataclass
class RunConfig:
    """One run; see `cell.Cell` for the settings that make a cell, and `cell.Options` for its switches.

    Attributes:
        repeats: fresh processes of each cell, numbered from `repeat`: all cells' first, then all their second, ...
        profile: which values of params.yaml's `{quick: ..., full: ...}` are run; None for its own `profile`.
        out: the folder for the records; None for a new one under runs/.
        retry: whether failed, timeout and killed cells of `out` are run again.
        verbose: whether to show what the cells' libraries print.
    """

    engine: EngineConfig = field(default_factory=EngineConfig)
    device: DeviceConfig = field(default_factory=DeviceConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    data: DataConfig = field(default_factory=DataConfig)
    suite: SuiteConfig = field(default_factory=SuiteConfig)
    tracking: TrackingConfig = field(default_factory=TrackingConfig)
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
    threads: int | None = None
    seed: int = 0
    repeat: int = 0
    repeats: int = 1
    timeout_s: float = 600.0
    window: WindowConfig = field(default_factory=WindowConfig)
    profile: str | None = None
    out: str | None = None
    retry: Retry = Retry.none
    verbose: bool = False


# The settings that are chosen by the name of a file in conf/.
GROUPS = ("engine", "device", "model", "data", "suite", "tracking")


@dataclass(frozen=True, kw_only=True)
class SweepOptions:
    """What holds for a whole sweep, not for one cell."""

    suite: str
    title: str
    study: str | None
    profile: str | None
    tracking: str
    out: str | None
    retry: Retry
    repeats: int = 1
    verbose: bool = False


def unlike(one: SweepOptions, other: SweepOptions) -> str:
    """The names of the options in which the two differ; empty where they are equal."""
    pairs = zip(asdict(one).items(), asdict(other).values(), strict=True)
    return ", ".join(name for (name, value), others in pairs if value != others and name not in ("title", "study"))


def register() -> None:
    """Makes the schema known to Hydra, as `schema`, which conf/config.yaml starts from."""
    ConfigStore.instance().store(name="schema", node=RunConfig)
