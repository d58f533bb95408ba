"""What the process of a cell needs before it starts."""

from accelbench.engines.registry import HostSpec
from accelbench.schema.cell import Cell

ENGINE = "accelbench.engines.sleep.engine"


def host_spec(cell: Cell) -> HostSpec:
    """Imports the engine once, before a host forks its cells."""
    return HostSpec(ENGINE, ("accelbench.isolation.supervisor", ENGINE))
