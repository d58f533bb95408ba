"""Measures a sweep on this machine or in the jobs of a cluster. The setting `executor` decides where."""

import os
from collections.abc import Callable, Sequence
from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from accelbench.cluster.controller import ClusterEngine, Controller
from accelbench.errors import UserError, how_to_install
from accelbench.isolation.hosts import Hosts
from accelbench.schema.cell import Cell
from accelbench.schema.record import Record
from accelbench.schema.serialize import grouped
from accelbench.settings.config import Executor, ExecutorConfig, SweepOptions
from accelbench.sweep import run as local


def run(
    cells: Sequence[Cell],
    options: SweepOptions,
    console: Console,
    out: Path | None = None,
    *,
    hosts: Hosts,
    show: Callable[[local.SweepResult], None] | None = None,
) -> local.SweepResult:
    """Does the same as `sweep.run.run`. But if `options` name a cluster, jobs of the cluster measure the cells.

    Raises UserError: some cells have no record.
    """
    records: list[Record] = []
    engine = engine_of(options.executor)
    with closing(engine) if engine else nullcontext():
        for of_data in grouped(cells, lambda cell: cell.data.name).values():
            controller = Controller(engine) if engine else None
            measure = controller.measure if controller else None
            result = local.run(of_data, options, console, out, hosts=hosts, show=show, measure=measure)
            if controller is not None:
                controller.check_complete(result.records)
            records += result.records
            options = replace(options, out=str(result.folder))
    return replace(result, records=records)


def engine_of(executor: ExecutorConfig) -> ClusterEngine | None:
    """Returns the engine of the cluster that the user has chosen, or None for this machine.

    Raises UserError: its package is not installed, or the cluster does not answer.
    """
    try:
        if executor.name == Executor.slurm:
            from accelbench.cluster.on_slurm import SlurmEngine

            return SlurmEngine(executor.slurm)
        if executor.name == Executor.ray:
            if executor.ray.address == "local":  # Ray then uses the loopback address; its import reads the variable
                os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
            from accelbench.cluster.on_ray import RayEngine

            return RayEngine(executor.ray)
    except ModuleNotFoundError as error:
        if error.name not in ("submitit", "ray"):
            raise
        extra = executor.name.value
        problem = f"executor={extra}: {error.name} is not installed: {how_to_install(extra)}"
        raise UserError(problem) from error
    return None
