"""The schema of the configuration that Hydra composes. `to_cell` makes a frozen cell from a configuration.

`schema/cell.py` declares the settings of a cell. This file declares all other settings. It does
not import Hydra, so that help texts appear fast.
"""

import types
from collections.abc import Collection, Iterator, Mapping
from dataclasses import MISSING as NO_DEFAULT
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from accelbench.errors import UserError, did_you_mean
from accelbench.schema.cell import (
    DataSpec,
    Device,
    Engine,
    KerasSettings,
    ModelSpec,
    Options,
    RunSettings,
    TrainerSettings,
)
from accelbench.schema.serialize import AtLeastOne, Count, NotNegative
from accelbench.schema.setting import HELP, Declared, declared, setting

MISSING: Any = "???"  # OmegaConf's mark for a value that a file in conf/ must set
GROUP = "group"  # key of a field's metadata
T = TypeVar("T")

Optimizer = StrEnum("Optimizer", ["adam", "adamw", "sgd"])  # how a model is trained
LrScale = StrEnum("LrScale", ["none", "linear", "sqrt"])  # how the learning rate grows with the batch
Retry = StrEnum("Retry", ["none", "failed"])  # which cells with a record are run again
Profile = StrEnum("Profile", ["quick", "full"])  # of params.yaml
Executor = StrEnum("Executor", ["local", "slurm", "ray"])  # where the cells of a sweep run


@dataclass(frozen=True, kw_only=True)
class OptimizerConfig:
    """How the learning rate grows with the batch size. A cell has only the resulting learning rate."""

    scale: LrScale = setting(
        LrScale.none,
        "how the learning rate grows with batch_size; model.learning_rate is the rate at model.batch_size",
    )


@dataclass(frozen=True, kw_only=True)
class EngineConfig(KerasSettings):
    """The settings in conf/engine. `xla_processes` is for PyTorch and Lightning. All other settings are for Keras."""

    name: Engine = MISSING
    xla_processes: bool = setting(
        False, "pytorch or lightning on a TPU: whether each chip has its own process instead of one for all"
    )


@dataclass(frozen=True, kw_only=True)
class DeviceConfig:
    """conf/device."""

    name: Device = MISSING
    is_auto: bool = False  # whether accelbench chose the device


@dataclass(frozen=True, kw_only=True)
class ModelConfig(ModelSpec):
    """conf/model: a network and how its study trains it."""

    name: str = setting(
        MISSING, "name of the network, as accelbench, timm, torchvision or transformers calls it"
    )
    target: str | None = setting(None, "dotted path of your own class, such as my_package.nets.MyNet")
    batch_size: AtLeastOne = setting(128, "default of batch_size for this network")
    epochs: AtLeastOne = setting(1, "default of epochs for this network")
    # a study's network has the shape of the study's images
    input_shape: tuple[AtLeastOne, ...] | None = setting(  # type: ignore[assignment]
        None,
        "data=random: shape of one sample, such as '[3,224,224]'. Default: the model's own shape, or 28x28",
    )


@dataclass(frozen=True, kw_only=True)
class DataConfig(DataSpec):
    """The settings in conf/data. In a cell, `image_size` is one of the `args`, and `root` is left out."""

    name: str = MISSING
    image_size: int | None = setting(None, "data=folder: height and width to which pictures are scaled")
    root: str | None = setting(None, "folder of the prepared data sets")


@dataclass(frozen=True, kw_only=True)
class TrackingConfig:
    """conf/tracking."""

    name: str = MISSING


@dataclass(frozen=True, kw_only=True)
class SlurmConfig:
    """The settings of executor=slurm, named as in submitit. None: Slurm's default. `nodes` is the number of jobs."""

    partition: str | None = setting(None, "partition of Slurm that runs the jobs, as in sbatch --partition")
    constraint: str | None = setting(
        None, "features that a node must have, such as h100, as in sbatch --constraint"
    )
    account: str | None = setting(None, "account that pays for the jobs, as in sbatch --account")
    qos: str | None = setting(None, "quality of service of the jobs, as in sbatch --qos")
    time: AtLeastOne | None = setting(None, "time limit of a job in minutes. Default: 240")
    nodes: AtLeastOne | None = setting(
        None, "maximum number of jobs, one per node, for all cells that need the same devices. Default: 1"
    )
    setup: list[str] = setting(
        factory=list, help='lines that the job\'s script runs before accelbench, such as ["module load cuda"]'
    )
    additional_parameters: dict[str, Any] = setting(
        factory=dict, help="other options of sbatch, such as {reservation: mine}"
    )


@dataclass(frozen=True, kw_only=True)
class RayConfig:
    """The settings of executor=ray."""

    address: str | None = setting(
        None,
        "Ray cluster: auto (the one of this machine), host:port (another) or local (starts one). Default: auto",
    )
    nodes: AtLeastOne | None = setting(
        None, "maximum number of tasks, one per node, for all cells that need the same devices. Default: 1"
    )
    num_retries: Count | None = setting(
        None, "how often a task is restarted after it lost its node. Default: 3"
    )


@dataclass(frozen=True, kw_only=True)
class ExecutorConfig:
    """conf/executor: where a sweep's cells are measured."""

    name: Executor = Executor.local
    slurm: SlurmConfig = SlurmConfig()
    ray: RayConfig = RayConfig()


def _group(kind: type[T], help: str) -> T:
    made: T = field(default_factory=kind, metadata={GROUP: help})
    return made


@dataclass(frozen=True, kw_only=True)
class SweepSettings:
    """The settings of a whole sweep that have the same names on the command line and in `SweepOptions`."""

    repeats: AtLeastOne = setting(
        1, "number of fresh processes for each cell; all cells run before one is repeated"
    )
    suite: str = setting("adhoc", "name of a suite in params.yaml; adhoc: no suite")
    profile: Profile | None = setting(None, "which list of a suite in params.yaml is measured: quick or full")
    out: str | None = setting(
        None, "folder for the records, under runs/; if the folder exists, its sweep continues"
    )
    retry: Retry = setting(
        Retry.none, "failed: repeats the cells of out= that failed, timed out, were killed or were disturbed"
    )
    quiet_s: NotNegative = setting(
        30.0,
        "seconds to wait for a quiet machine before a disturbed cell is repeated. 0: it is never repeated",
    )
    verbose: bool = setting(False, "whether to show what the cells' libraries print; -v does the same")


@dataclass(frozen=True, kw_only=True)
class RunConfig(SweepSettings, Options, RunSettings):
    """The configuration of one run."""

    engine: EngineConfig = _group(EngineConfig, "what runs the network")
    device: DeviceConfig = _group(
        DeviceConfig, "the device; auto is the fastest of this machine. Default on the command line: auto"
    )
    model: ModelConfig = _group(ModelConfig, "a network, such as cnn, or a library of networks, such as timm")
    data: DataConfig = _group(DataConfig, "the data set")
    tracking: TrackingConfig = _group(TrackingConfig, "whether the results are also sent to MLflow")
    executor: ExecutorConfig = _group(
        ExecutorConfig, "where cells are measured: on this machine, or in jobs of a cluster"
    )
    trainer: TrainerSettings = TrainerSettings()
    optimizer: OptimizerConfig = OptimizerConfig()
    # The words that asked for the run, and the names of settings that only a profile sets. They are no settings.
    words: tuple[str, ...] = field(default=(), compare=False, metadata={"omegaconf_ignore": True})
    of_profile: Collection[str] = field(default=(), compare=False, metadata={"omegaconf_ignore": True})


# Setting that chooses a file in conf/<setting>/ -> the kind of thing that it chooses.
GROUPS: dict[str, str] = {
    group.name: group.metadata[GROUP] for group in fields(RunConfig) if GROUP in group.metadata
}
# The paths of all settings.
PATHS = [*GROUPS, *(setting.path for setting in declared(RunConfig)), "model.batch_args.seq_len"]
# All settings and groups of settings, as messages list them.
NAMES = tuple(
    dict.fromkeys(
        [
            *GROUPS,
            *(setting.name for setting in fields(RunConfig) if "omegaconf_ignore" not in setting.metadata),
        ]
    )
)

LISTED = " `accelbench run --help` lists the settings."


def check_known(name: str, value: str) -> None:
    """Raises a UserError if neither a setting nor a section has this name."""
    if name.removesuffix(".name") not in GROUPS and not any(
        f"{path}.".startswith(f"{name}.") for path in PATHS
    ):
        raise UserError(f"{name}={value}: unknown setting.{did_you_mean(name, PATHS)}{LISTED}")


@dataclass(frozen=True, kw_only=True)
class SweepOptions(SweepSettings):
    """Settings that apply to a whole sweep, not to a single cell."""

    title: str
    tracking: str
    study: str | None = None
    data_root: str | None = None
    executor: ExecutorConfig = ExecutorConfig()
    is_auto: bool = False  # whether accelbench chose the device
    waits_s: float | None = None  # longest wait for another measurement to end; None: no limit
    ends_after_s: float | None = None  # no cell starts later than this after the start of measuring
    # Id of a cell with repeat=0 -> words that ask for it.
    words_of: Mapping[str, str] = field(default_factory=dict)


def differing_options(first: SweepOptions, second: SweepOptions) -> str:
    """Names the options in which `first` and `second` differ, except those that depend on the suite or the device."""
    others = asdict(second)
    of_cells = ("title", "study", "is_auto", "words_of")
    names = [name for name, value in asdict(first).items() if value != others[name] and name not in of_cells]
    return ", ".join("data.root" if name == "data_root" else name for name in names)


def check_local(executor: ExecutorConfig) -> None:
    """Raises a UserError if the executor measures on a cluster."""
    if executor.name != Executor.local:
        raise UserError(
            f"executor={executor.name}: only `accelbench run` can measure on a cluster. This command measures on the "
            "machine where it runs: use executor=local"
        )


GENERAL = "general"  # the topic of settings without a group
KINDS = {int: "a whole number", float: "a number", str: "a text"}
LIST = "a list"
MAPPING = "names with values"


@dataclass(frozen=True, kw_only=True)
class About:
    """The documentation of a setting."""

    name: str
    meaning: str
    choices: list[str]  # its values, if they are words
    kind: str  # the kind of values that are not words
    default: Any
    is_needed: bool = False  # whether every cell needs a value, which a file in conf/ sets

    @property
    def topic(self) -> str:
        """The topic of help that explains it."""
        group, dot, _ = self.name.partition(".")
        if dot or group in GROUPS:
            return group
        return GENERAL


def every_setting(conf: Path) -> Iterator[About]:
    """Yields all settings: settings that choose a file in `conf`, then plain settings, then settings in sections."""
    for group, meaning in GROUPS.items():
        files = sorted(path.stem for path in (conf / group).glob("*.yaml"))
        yield About(name=group, meaning=meaning, choices=files, kind="", default=None, is_needed=True)
    every = list(declared(RunConfig))
    yield from (_about(setting) for setting in sorted(every, key=lambda setting: "." in setting.path))


def _about(setting: Declared) -> About:
    field = setting.field
    default = field.default if field.default_factory is NO_DEFAULT else field.default_factory()
    choices: list[str] = []
    kinds = []
    for part in _parts(setting.kind):
        if isinstance(part, type) and issubclass(part, StrEnum):
            choices += part
        elif part is bool:
            choices += ["true", "false"]
        elif part is not type(None):
            kinds.append(KINDS.get(part) or (LIST if get_origin(part) in (list, tuple) else MAPPING))
    return About(
        name=setting.path,
        meaning=field.metadata[HELP],
        choices=choices,
        kind=" or ".join(kinds),
        default=None if default in (NO_DEFAULT, MISSING) else default,
        is_needed=default is NO_DEFAULT,
    )


def _parts(kind: Any) -> list[Any]:
    parts = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else [kind]
    return [get_args(part)[0] if get_origin(part) is Annotated else part for part in parts]


# Settings that take one list.
LISTS = {
    setting.path
    for setting in declared(RunConfig)
    if {get_origin(part) for part in _parts(setting.kind)} & {list, tuple}
}
