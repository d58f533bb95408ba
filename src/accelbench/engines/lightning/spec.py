"""What a process needs before it runs cells on Lightning."""

from dataclasses import replace

from accelbench.engines.pytorch import spec as of_torch
from accelbench.engines.registry import HostSpec
from accelbench.schema.cell import Cell

ENGINE = "accelbench.engines.lightning.engine"
LIGHT_IMPORT = "accelbench.engines.lightning.light_import"  # before Lightning


def host_spec(cell: Cell) -> HostSpec:
    """The host of `cell`: that of PyTorch, with Lightning."""
    base = of_torch.host_spec(cell)
    first, *others = (name for name in base.preload if name != of_torch.ENGINE)
    return replace(base, engine=ENGINE, preload=(first, LIGHT_IMPORT, ENGINE, *others))
