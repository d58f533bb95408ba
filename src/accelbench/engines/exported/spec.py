"""What the process of an engine needs that runs exported networks of PyTorch."""

from dataclasses import replace

from accelbench.engines.lightning import spec as of_torch
from accelbench.engines.registry import HostSpec
from accelbench.schema.cell import Cell


def exporting_host(cell: Cell, engine: str) -> HostSpec:
    """The host of `cell`: that of PyTorch, with another engine.

    Args:
        cell: to be run.
        engine: the name of the engine's module, which imports its framework only when it runs.
    """
    base = of_torch.host_spec(cell)
    return replace(base, engine=engine, preload=(*base.preload, engine))
