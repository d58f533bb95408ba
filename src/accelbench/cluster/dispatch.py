"""Measures a sweep where its settings say: on this machine, or in the jobs of a cluster."""

from collections.abc import Sequence
from contextlib import closing, nullcontext
from pathlib import Path

from rich.console import Console

from accelbench.cluster.controller import Controller
from accelbench.cluster.engine import ClusterEngine
from accelbench.errors import UserError
from accelbench.isolation.hosts import Hosts
from accelbench.schema.cell import Cell
from accelbench.settings.config import SweepOptions
from accelbench.settings.executors import Executor, ExecutorConfig
from accelbench.sweep import run as local
from accelbench.sweep.context import SweepContext
from accelbench.sweep.run import Show, SweepResult


def run(
    cells: Sequence[Cell],
    options: SweepOptions,
    console: Console,
    out: Path | None = None,
    *,
    hosts: Hosts,
    show: Show | None = None,
) -> SweepResult:
    """As `sweep.run.run`, by the jobs of a cluster if `options` say so. If interrupted, it cancels them.

    Jobs of an earlier controller of the same folder that still run are not submitted again, but waited for.

    Raises:
        UserError: the sweep could not start, or not go on, or its jobs ended before every cell had its record.
    """
    if options.executor.name == Executor.local:
        return local.run(cells, options, console, out, hosts=hosts, show=show)
    context = SweepContext.begin(cells, options, console, hosts, out=out)
    with closing(engine_of(options.executor)) as engine:
        controller = Controller(context, engine)
        result = local.carry_out(
            context, cells, controller.run, is_joined=out is None, machine=nullcontext(), show=show
        )
    controller.check_complete(result.records)
    return result


def engine_of(executor: ExecutorConfig) -> ClusterEngine:
    """The engine that the user has chosen.

    Raises:
        UserError: it is not installed, or its cluster is not there.
    """
    extra = executor.name.value
    try:
        if executor.name == Executor.slurm:
            from accelbench.cluster.on_slurm import SlurmEngine

            return SlurmEngine(executor.slurm)
        from accelbench.cluster.on_ray import RayEngine

        return RayEngine(executor.ray)
    except ModuleNotFoundError as error:
        if error.name not in ("submitit", "ray"):
            raise
        how = f"pip install '/path/to/accelbench[{extra}]'"
        problem = f"executor={extra}: {error.name} is not installed: the extra `{extra}` has it"
        raise UserError(f"{problem}: {how}") from error
