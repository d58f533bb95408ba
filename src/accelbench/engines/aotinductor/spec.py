"""What a process needs before it runs cells on AOTInductor."""

from accelbench.engines.exported.spec import exporting_host
from accelbench.engines.registry import HostSpec
from accelbench.schema.cell import Cell

ENGINE = "accelbench.engines.aotinductor.engine"


def host_spec(cell: Cell) -> HostSpec:
    """The host of `cell`."""
    return exporting_host(cell, ENGINE, saves_compiled=True)
