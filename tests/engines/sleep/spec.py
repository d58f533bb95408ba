from accelbench.engines.registry import HostSpec
from accelbench.schema.cell import Cell

ENGINE = "accelbench.engines.sleep.engine"


def host_spec(cell: Cell) -> HostSpec:
    return HostSpec(ENGINE, ("accelbench.isolation.host_process", ENGINE))
