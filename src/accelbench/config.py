"""The configuration's schema, and the one step from it to frozen cells."""

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from hydra.core.config_store import ConfigStore
from omegaconf import MISSING, DictConfig, OmegaConf

from accelbench.cell import Cell, DataSpec, KerasSettings, ModelSpec, Options, Window
from accelbench.errors import UserError
from accelbench.limits import check
from accelbench.vocab import (
    RANDOM,
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


def split(config: DictConfig) -> tuple[Cell, SweepOptions]:
    """The frozen cell, and the sweep's options, of a composed configuration.

    Raises:
        UserError: a value is out of its range; the message names the flag.
    """
    run = OmegaConf.to_object(config)
    assert isinstance(run, RunConfig), "conf/config.yaml starts from the schema"
    check(run)
    _name_custom(run)
    _drop_idle(run)
    grows = run.scaling == Scaling.weak
    cell = Cell(
        suite=run.suite.name,
        engine=run.engine.name,
        device=run.device.name,
        model=ModelSpec(
            name=run.model.name,
            library=run.model.library,
            network=None if run.model.network == run.model.name else run.model.network,
            weights=run.model.weights,
            args=run.model.args,
            optimizer=run.model.optimizer.value,
            learning_rate=run.model.learning_rate,
            input_shape=tuple(run.model.input_shape),
            num_classes=run.model.num_classes,
        ),
        data=DataSpec(**asdict(run.data)),
        mode=run.mode,
        precision=run.precision,
        batch_size=run.batch_size * (run.devices if grows else 1),
        devices=run.devices,
        xla_processes=bool(run.engine.xla_processes),
        scaling=run.scaling,
        protocol=run.protocol,
        epochs=run.epochs,
        warmup=run.warmup,
        steps=run.steps,
        breakdown_s=run.breakdown_s,
        options=Options(
            channels_last=run.channels_last, compile=run.compile, freeze=run.freeze, cuda_graphs=run.cuda_graphs
        ),
        keras=_keras(run.engine, run.device.name),
        threads=run.threads,
        seed=run.seed,
        repeat=run.repeat,
        window=Window(**asdict(run.window)),
        timeout_s=run.timeout_s,
    )
    options = SweepOptions(
        suite=run.suite.name,
        title=run.suite.title,
        study=run.suite.study,
        profile=run.profile,
        tracking=run.tracking.name,
        out=run.out,
        retry=run.retry,
        repeats=run.repeats,
        verbose=run.verbose,
    )
    return cell, options


def _keras(engine: EngineConfig, device: Device) -> KerasSettings | None:
    """Keras' settings, None for Lightning; what was not given is as in `cell.KerasSettings`, and XLA compiles for JAX.

    Raises:
        UserError: a setting of another engine was given, or a TPU's name to JAX.
    """
    given = {name: value for name, value in vars(engine).items() if name != "name" and value is not None}
    for name, value in given.items():
        its = Engine.lightning if name == "xla_processes" else Engine.keras
        if its != engine.name:
            word = str(value).lower() if isinstance(value, bool) else value
            raise UserError(f"engine.{name}={word}: goes with engine={its}, and not with engine={engine.name}")
    if engine.name != Engine.keras:
        return None
    if device != Device.tpu:
        given.pop("tpu", None)  # it does nothing: the cell's id is without it
    elif engine.backend == KerasBackend.jax and given.get("tpu", KerasSettings.tpu) != KerasSettings.tpu:
        told = f"engine.tpu={engine.tpu}: JAX drives the TPU of its own machine"
        raise UserError(f"{told}: use engine.tpu={KerasSettings.tpu}, or engine.backend=tensorflow")
    return KerasSettings(**{"jit_compile": engine.backend == KerasBackend.jax, **given})


def _name_custom(run: RunConfig) -> None:
    """Has a network of the user's own be known by its class, unless it was given another name.

    Raises:
        UserError: it is not said which class, or it is for another model.
    """
    model = run.model
    if model.library != Library.custom:
        if model.target is not None:
            raise UserError(f"model.target={model.target}: goes with model=custom, and not with model={model.name}")
        return
    if not model.target or not all(part.isidentifier() for part in model.target.split(".")) or "." not in model.target:
        given = "is missing" if not model.target else f"{model.target} is none"
        raise UserError(
            f"model.target: should be the dotted path of a class, such as my_package.nets.MyNet; it {given}"
        )
    if model.weights != Weights.none:
        raise UserError(f"model.weights={model.weights}: a network of your own loads its own. Choose from: none.")
    model.network = model.target
    if model.name == Library.custom:
        model.name = model.target.rpartition(".")[2]


def _drop_idle(run: RunConfig) -> None:
    """Puts settings that do nothing in this cell back to their defaults: a cell's id is of what decides its numbers."""
    if run.mode == Mode.infer:
        run.data.augment = Augment.none
    if run.devices == 1:
        run.scaling = Cell.scaling
    if run.engine.name == Engine.lightning and (run.devices == 1 or run.device.name not in XLA):
        run.engine.xla_processes = None
    if run.protocol == Protocol.fit:
        run.breakdown_s = Cell.breakdown_s
    if run.data.pipeline != Pipeline.jpeg:
        run.data.num_workers = DataSpec.num_workers
    if run.data.name != RANDOM:
        run.model.input_shape, run.model.num_classes = list(ModelSpec.input_shape), ModelSpec.num_classes
