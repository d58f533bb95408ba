"""Where a sweep's cells are measured: on this machine, or in jobs of a cluster's scheduler."""

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from accelbench.errors import UserError
from accelbench.schema.ranges import AtLeastOne, Count
from accelbench.schema.setting import setting


class Executor(StrEnum):
    """What runs the cells of a sweep."""

    local, slurm, ray = "local", "slurm", "ray"


@dataclass(frozen=True, kw_only=True)
class SlurmConfig:
    """The settings of executor=slurm, named as submitit names them; None: Slurm's default. `nodes` are jobs here."""

    partition: str | None = setting(None, "Slurm's partition; this and the next three as submitit and sbatch name them")
    constraint: str | None = setting(None, "the features of a node, such as h100")
    account: str | None = setting(None, "the account that pays")
    qos: str | None = setting(None, "the quality of service")
    time: AtLeastOne | None = setting(None, "minutes of a job; 240 with executor=slurm")
    nodes: AtLeastOne | None = setting(
        None, "jobs, each alone on a node, for each group of cells that need the same hardware; 1 with executor=slurm"
    )
    setup: list[str] = setting(
        factory=list, help='lines of the job\'s script before accelbench starts, such as ["module load cuda"]'
    )
    additional_parameters: dict[str, Any] = setting(
        factory=dict, help="any other option of sbatch, such as {reservation: mine}"
    )


@dataclass(frozen=True, kw_only=True)
class RayConfig:
    """The settings of executor=ray."""

    address: str | None = setting(
        None, "auto, host:port, or local for a new Ray on this machine; auto with executor=ray"
    )
    nodes: AtLeastOne | None = setting(
        None, "tasks, each alone on a node, for each group of cells that need the same hardware; 1 with executor=ray"
    )
    num_retries: Count | None = setting(
        None, "how often a task is started again after its node was lost; 3 with executor=ray"
    )


@dataclass(frozen=True, kw_only=True)
class ExecutorConfig:
    """conf/executor: where a sweep's cells are measured."""

    name: Executor = Executor.local
    slurm: SlurmConfig = SlurmConfig()
    ray: RayConfig = RayConfig()


def check(executor: ExecutorConfig) -> None:
    """Raises a UserError if a setting is of another executor than the chosen one, or missing."""
    name = executor.name
    for other, settings in ((Executor.slurm, executor.slurm), (Executor.ray, executor.ray)):
        given = [each for each, value in asdict(settings).items() if value not in (None, [], {})]
        if given and other != name:
            raise UserError(f"executor.{other}.{given[0]}: goes with executor={other}, and not with executor={name}")
        if other == name and settings.nodes is None:
            raise UserError(
                f"executor.name={name}: without executor.{name}.nodes: use executor={name}, which has defaults"
            )
    if executor.ray.address == "":
        raise UserError("executor.ray.address=: should be auto, host:port, or local")


def check_local(executor: ExecutorConfig) -> None:
    """Raises a UserError if cells are not to be measured on this machine."""
    if executor.name != Executor.local:
        raise UserError(
            f"executor={executor.name}: spreads the cells of `accelbench run` over a cluster; this measures on one "
            "machine: use executor=local, in a job of its own"
        )
