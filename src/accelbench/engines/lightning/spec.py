"""The host process of cells that run on Lightning."""

from dataclasses import replace

from accelbench.engines.pytorch import spec as of_torch
from accelbench.engines.registry import HostSpec
from accelbench.schema.cell import Cell

ENGINE = "accelbench.engines.lightning.engine"
LIGHTNING_IMPORT = "accelbench.engines.lightning.lightning_import"


def host_spec(cell: Cell) -> HostSpec:
    """The host of `cell`: PyTorch's host that also imports Lightning."""
    base = of_torch.host_spec(cell)
    first, *others = (name for name in base.preload if name != of_torch.ENGINE)
    return replace(base, engine=ENGINE, preload=(first, LIGHTNING_IMPORT, ENGINE, *others))
