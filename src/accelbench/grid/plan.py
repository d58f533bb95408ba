"""The grid as planned cells: the name of each cell's record, and why a cell is skipped."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from accelbench.devices.registry import DeviceReport, look
from accelbench.grid.identity import identity
from accelbench.grid.support import why_not
from accelbench.schema.cell import Cell
from accelbench.schema.conditions import Data
from accelbench.schema.plan_file import WantedCell, labels
from accelbench.schema.vocab import Device, Engine


@dataclass(frozen=True)
class Planned:
    """A cell, the identity of its record, and why it is skipped (None: it runs).

    Attributes:
        label: tells the cell apart from the others of its folder; by default `cell.label`.
    """

    cell: Cell
    identity: str
    skip_reason: str | None
    label: str = ""

    def __post_init__(self) -> None:
        if not self.label:
            object.__setattr__(self, "label", self.cell.label)

    @property
    def record_name(self) -> str:
        """The file name of the record, without `.json`."""
        return f"{self.cell.id}-{self.identity[:8]}"


@cache
def report_on(device: Device) -> DeviceReport:
    """What this machine has of `device`; looked up once per process."""
    return look(device)


def in_order(cells: Iterable[Cell]) -> dict[str, Cell]:
    """Cell id -> cell, in the order in which the cells run; equal cells once.

    The repeats of a cell are kept apart: all cells run once, then all again, so that drift affects all alike.
    """
    unique = {cell.id: cell for cell in cells}
    return dict(sorted(unique.items(), key=lambda item: item[1].repeat))


def skip_reason(cell: Cell) -> str | None:
    """Why this machine skips the cell; None: it runs."""
    return why_not(cell, report_on(cell.device))


def plan(
    cells: Iterable[Cell],
    data: Data,
    fingerprints: Mapping[Engine, Mapping[str, Any]],
    earlier: Iterable[WantedCell] = (),
) -> list[Planned]:
    """The planned cells, in the order in which they run."""
    ordered = in_order(cells)
    known = {wanted.cell.id: wanted for wanted in earlier}
    everything = [*(wanted.cell for wanted in known.values()), *ordered.values()]
    names = labels(everything, {cell_id: wanted.label for cell_id, wanted in known.items()})
    return [
        Planned(cell, identity(cell, data, fingerprints[cell.engine]), skip_reason(cell), names[key])
        for key, cell in ordered.items()
    ]
