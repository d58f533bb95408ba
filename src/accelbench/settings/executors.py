"""Where a sweep's cells are measured: on this machine, or in jobs of a cluster's scheduler."""

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from accelbench.errors import UserError


class Executor(StrEnum):
    """What runs the cells of a sweep."""

    local = "local"
    slurm = "slurm"
    ray = "ray"


@dataclass
class SlurmConfig:
    """The settings of executor=slurm, named as submitit names them; None: Slurm's default. `nodes` are jobs here."""

    partition: str | None = None
    constraint: str | None = None
    account: str | None = None
    qos: str | None = None
    time: int | None = None
    nodes: int | None = None
    setup: list[str] = field(default_factory=list)
    additional_parameters: dict[str, Any] = field(default_factory=dict)


@dataclass
class RayConfig:
    """The settings of executor=ray."""

    address: str | None = None
    nodes: int | None = None
    num_retries: int | None = None


@dataclass
class ExecutorConfig:
    """conf/executor."""

    name: Executor = Executor.local
    slurm: SlurmConfig = field(default_factory=SlurmConfig)
    ray: RayConfig = field(default_factory=RayConfig)


def check(executor: ExecutorConfig) -> None:
    """Checks that the settings are of the chosen executor, and there.

    Raises:
        UserError: a setting is of another one, or missing; the message names it.
    """
    for other, settings in (("slurm", executor.slurm), ("ray", executor.ray)):
        given = [name for name, value in asdict(settings).items() if value not in (None, [], {})]
        if given and other != executor.name:
            named = f"executor.{other}.{given[0]}"
            raise UserError(f"{named}: goes with executor={other}, and not with executor={executor.name}")
    chosen = {Executor.slurm: executor.slurm.nodes, Executor.ray: executor.ray.nodes}
    if chosen.get(executor.name, 1) is None:
        name = executor.name
        raise UserError(f"executor.name={name}: without executor.{name}.nodes: use executor={name}, which has defaults")
    if executor.ray.address == "":
        raise UserError("executor.ray.address=: should be auto, host:port, or local")


def check_local(executor: ExecutorConfig) -> None:
    """Checks that cells are to be measured on this machine.

    Raises:
        UserError: they are not.
    """
    if executor.name != Executor.local:
        raise UserError(
            f"executor={executor.name}: spreads the cells of `accelbench run` over a cluster; this measures on one "
            "machine: use executor=local, in a job of its own"
        )
