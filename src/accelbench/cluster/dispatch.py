"""Measures a sweep where its settings say: on this machine, or in the jobs of a cluster."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

from accelbench.cluster.controller import ClusterEngine, Controller
from accelbench.errors import UserError, how_to_install
from accelbench.schema.cell import Cell
from accelbench.schema.record import Record
from accelbench.schema.serialize import grouped
from accelbench.settings.config import Executor, ExecutorConfig, SweepOptions
from accelbench.sweep import run as local
from accelbench.sweep.run import SweepResult


def run(cells: Sequence[Cell], options: SweepOptions, *arguments: Any, **named: Any) -> SweepResult:
    """As `sweep.run.run` for the cells of each data set, by the jobs of a cluster if `options` say so.

    Raises UserError: cells have no record.
    """
    records: list[Record] = []
    for of_data in grouped(cells, lambda cell: cell.data.name).values():
        result = _run(of_data, options, *arguments, **named)
        records += result.records
        options = replace(options, out=str(result.folder))
    return replace(result, records=records)


def _run(cells: Sequence[Cell], options: SweepOptions, *arguments: Any, **named: Any) -> SweepResult:
    if options.executor.name == Executor.local:
        return local.run(cells, options, *arguments, **named)
    with closing(engine_of(options.executor)) as engine:
        controller = Controller(engine)
        result = local.run(cells, options, *arguments, **named, measure=controller.measure)
    controller.check_complete(result.records)
    return result


def engine_of(executor: ExecutorConfig) -> ClusterEngine:
    """The engine that the user has chosen. Raises UserError: it is not installed, or its cluster is not there."""
    try:
        if executor.name == Executor.slurm:
            from accelbench.cluster.on_slurm import SlurmEngine

            return SlurmEngine(executor.slurm)
        from accelbench.cluster.on_ray import RayEngine

        return RayEngine(executor.ray)
    except ModuleNotFoundError as error:
        if error.name not in ("submitit", "ray"):
            raise
        extra = executor.name.value
        problem = f"executor={extra}: {error.name} is not installed: {how_to_install(extra)}"
        raise UserError(problem) from error
