"""The grid as cells: which record answers for each, which are skipped, how long the rest will take."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

from accelbench.devices.base import DeviceReport
from accelbench.devices.registry import look
from accelbench.grid.identity import identity
from accelbench.grid.support import why_not
from accelbench.schema.cell import Cell
from accelbench.schema.conditions import Data
from accelbench.schema.vocab import Device


@dataclass(frozen=True)
class Planned:
    """A cell, the name of its record, and why it would be skipped (None: it runs)."""

    cell: Cell
    identity: str
    skip_reason: str | None

    @property
    def record_name(self) -> str:
        """The record's file name, without its ending."""
        return f"{self.cell.id}-{self.identity[:8]}"


@cache
def report_on(device: Device) -> DeviceReport:
    """What this machine has of `device`; looked up once per process."""
    return look(device)


def plan(cells: Iterable[Cell], data: Data, fingerprint: dict[str, Any]) -> list[Planned]:
    """The cells in the order in which they run: repeats apart from each other, so that drift hits all alike.

    Equal cells are planned once.
    """
    unique = {cell.id: cell for cell in cells}
    return [
        Planned(cell, identity(cell, data, fingerprint), why_not(cell, report_on(cell.device)))
        for cell in sorted(unique.values(), key=lambda cell: cell.repeat)
    ]
