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
    """The cells in the order in which each of `num` jobs takes them: first its own, then what the others left.

    All cells of a repeat belong to one job, on whose node they can be compared; to several if there are fewer repeats
    than jobs. There are at most as many jobs as cells.
    """
    num = min(num, len(cells))
    repeats: dict[int, list[Cell]] = {}
    for cell in cells:
        repeats.setdefault(cell.repeat, []).append(cell)
    parts: list[list[Cell]] = [[] for _ in range(num)]
    for number, repeat in enumerate(repeats.values()):
        own = parts[number % num :: len(repeats)]  # one job, unless there are fewer repeats than jobs
        for k, cell in enumerate(repeat):
            own[k % len(own)].append(cell)
    return [[cell for part in (*parts[k:], *parts[:k]) for cell in part] for k in range(num)]
