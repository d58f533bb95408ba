"""Cells grouped by what they need of a node."""

from collections.abc import Iterable
from dataclasses import dataclass

from accelbench.schema.cell import Cell
from accelbench.schema.vocab import SHARE_ONE_CPU, Device


@dataclass(frozen=True)
class Need:
    """What a cell needs of its node.

    Attributes:
        device: the hardware; `cpu` also for what else computes on the processor.
        num: how many of it. 1 of a processor, since several devices of it are parts of one.
    """

    device: Device
    num: int

    @classmethod
    def of(cls, cell: Cell) -> "Need":
        """What `cell` needs."""
        return cls(Device.cpu, 1) if cell.device in SHARE_ONE_CPU else cls(cell.device, cell.devices)

    def __str__(self) -> str:
        return self.device.value if self.num == 1 else f"{self.num} x {self.device.value}"


def groups(cells: Iterable[Cell]) -> dict[Need, list[Cell]]:
    """Need -> the cells that have it, in their order."""
    found: dict[Need, list[Cell]] = {}
    for cell in cells:
        found.setdefault(Need.of(cell), []).append(cell)
    return found


def shares(cells: list[Cell], num: int) -> list[list[Cell]]:
    """The cells in the order in which each of `num` jobs takes them: first every num-th, then what the others left.

    There are at most as many as cells.
    """
    num = min(num, len(cells))
    parts = [cells[first::num] for first in range(num)]
    return [[cell for part in (*parts[k:], *parts[:k]) for cell in part] for k in range(num)]
