"""The host process of cells that run on Lightning."""

from dataclasses import replace

from accelbench.engines.pytorch import spec as of_torch
from accelbench.engines.registry import HostSpec
from accelbench.schema.cell import Cell

ENGINE = "accelbench.engines.lightning.engine"
LIGHT_IMPORT = "accelbench.engines.lightning.light_import"


def host_spec(cell: Cell) -> HostSpec:
    """The host of `cell`: PyTorch's host that also imports Lightning."""
    base = of_torch.host_spec(cell)
    others = [name for name in base.preload if name not in ("torch", of_torch.NOTE_MALLOC, of_torch.ENGINE)]
    preload = ("torch", LIGHT_IMPORT, "pytorch_lightning", of_torch.NOTE_MALLOC, ENGINE, *others)
    return replace(base, engine=ENGINE, preload=preload)
