"""What the process of an engine needs that runs exported networks of PyTorch."""

from dataclasses import replace

from accelbench.engines.lightning import spec as of_torch
from accelbench.engines.registry import HostSpec
from accelbench.schema.cell import Cell

EXPORTER = "torch.export._trace"  # what torch.export imports when it is first called: a third of a second


def exporting_host(cell: Cell, engine: str, *more: str) -> HostSpec:
    """The host of `cell`: that of PyTorch, with another engine.

    Args:
        cell: to be run.
        engine: the name of the engine's module, which imports its framework only when it runs.
        more: modules that take long to import and start no threads; those that are not installed are passed over.
    """
    base = of_torch.host_spec(cell)
    return replace(base, engine=engine, preload=(*base.preload, engine, EXPORTER, *more))
