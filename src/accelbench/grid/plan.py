"""The grid as planned cells: the name of each cell's record, and why a cell is skipped."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from accelbench.devices.base import DeviceReport
from accelbench.devices.registry import look
from accelbench.grid.identity import identity
from accelbench.grid.support import why_not
from accelbench.schema.cell import Cell
from accelbench.schema.conditions import Data
from accelbench.schema.vocab import Device, Engine


@dataclass(frozen=True)
class Planned:
    """A cell, the identity of its record, and why it is skipped (None: it runs)."""

    cell: Cell
    identity: str
    skip_reason: str | None

    @property
    def record_name(self) -> str:
        """The file name of the record, without `.json`."""
        return f"{self.cell.id}-{self.identity[:8]}"


@cache
def report_on(device: Device) -> DeviceReport:
    """What this machine has of `device`; looked up once per process."""
    return look(device)


def plan(cells: Iterable[Cell], data: Data, fingerprints: Mapping[Engine, Mapping[str, Any]]) -> list[Planned]:
    """The cells in the order in which they run; equal cells once.

    The repeats of a cell are kept apart: all cells run once, then all again, so that drift affects all alike.

    Args:
        cells: the grid.
        data: the data set of all cells.
        fingerprints: one for each engine of the cells.
    """
    unique = {cell.id: cell for cell in cells}
    return [
        Planned(cell, identity(cell, data, fingerprints[cell.engine]), why_not(cell, report_on(cell.device)))
        for cell in sorted(unique.values(), key=lambda cell: cell.repeat)
    ]
