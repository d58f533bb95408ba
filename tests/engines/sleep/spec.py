"""The host process of cells on this engine."""

from accelbench.engines.registry import HostSpec
from accelbench.schema.cell import Cell

ENGINE = "accelbench.engines.sleep.engine"


def host_spec(cell: Cell) -> HostSpec:
    """The host of `cell`: it imports the engine once, before it forks cells."""
    return HostSpec(ENGINE, ("accelbench.isolation.supervisor", ENGINE))
