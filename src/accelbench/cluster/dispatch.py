"""Measures a sweep where its settings say: on this machine, or in the jobs of a cluster."""

from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console

from accelbench.isolation.hosts import Hosts
from accelbench.schema.cell import Cell
from accelbench.settings.config import SweepOptions
from accelbench.settings.executors import Executor
from accelbench.sweep import run as local
from accelbench.sweep.run import SweepResult


def run(
    cells: Sequence[Cell],
    options: SweepOptions,
    console: Console,
    out: Path | None = None,
    *,
    hosts: Hosts,
    show: Callable[[SweepResult], None] | None = None,
) -> SweepResult:
    """Measures every cell that has no record yet; see `sweep.run.run`.

    Args:
        cells: the grid.
        options: settings of the whole sweep, the executor included.
        console: where progress is shown.
        out: the folder of a pipeline's suite.
        hosts: from which the cells are forked on this machine.
        show: shows the result once every cell has its record.

    Raises:
        UserError: the sweep could not start, or not go on, for a reason that the user can mend.
    """
    if options.executor.name == Executor.local:
        return local.run(cells, options, console, out, hosts=hosts, show=show)
    from accelbench.cluster import controller  # imports submitit or Ray

    return controller.run(cells, options, console, out, show=show)
