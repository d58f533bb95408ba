"""What several devices gain over one: each such cell and its counterpart on one device, of the same sweep."""

from accelbench.answers.cells import MeasuredCell
from accelbench.report.read import Sweep
from accelbench.schema.record import Row
from accelbench.schema.serialize import group_digest
from accelbench.schema.vocab import SHARE_ONE_CPU, Device, Scaling

COLUMN = "scaling_efficiency"


def rows(sweep: Sweep) -> list[Row]:
    """The rows of `cells.csv`: each cell's row with its scaling efficiency, None if there is no counterpart."""
    ok = [cell for cell in sweep.cells if cell.speed]
    singles = {_key(cell, cell.cell.batch_size): cell for cell in ok if cell.cell.devices == 1}
    efficiency: dict[str, float] = {}
    for cell in ok:
        of = cell.cell
        # Devices that share one process' threads have no cell on one device with comparable threads.
        if of.devices > 1 and not (of.device in SHARE_ONE_CPU and of.num_processes == 1):
            batch_size = of.batch_size if of.scaling == Scaling.strong else of.batch_size_per_device
            if (single := singles.get(_key(cell, batch_size))) is not None:
                efficiency[cell.name] = (cell.speed or 0.0) / (single.speed or 1.0) / of.devices
    return [cell.row | {COLUMN: efficiency.get(cell.name)} for cell in sweep.cells]


def _key(cell: MeasuredCell, batch_size: int) -> str:
    """What a cell on several devices shares with its counterpart on one."""
    settings = cell.all_but("devices", "xla_processes", "scaling", "batch_size", "threads")
    threads = cell.row["threads"] if cell.cell.device == Device.cpu else cell.cell.threads
    return group_digest([settings, batch_size, threads])
