"""Whether a cell is invalid: what ran is not what was asked for, or the engine found a defect."""

from accelbench.judging import witnessed
from accelbench.schema.cell import Cell
from accelbench.schema.conditions import Witnessed
from accelbench.schema.measurement import Measurement
from accelbench.schema.vocab import Allocator


def judge(cell: Cell, measurement: Measurement, seen: Witnessed | None = None) -> str | None:
    """Why the cell is invalid: what ran is not what was asked for, or has a defect; None if it is valid.

    Args:
        cell: as it was asked for.
        measurement: what its process says.
        seen: what the host saw of the process; None if nothing confirms what it says.
    """
    found = [] if seen is None else list(witnessed.defects(cell, measurement, seen))
    for word in ("device", "precision"):
        asked, ran = getattr(cell, word), getattr(measurement, word)
        if asked != ran:
            found.append(f"asked for {word} {asked}, but {ran} ran")
    if cell.devices != measurement.num_devices:
        found.append(f"asked for {cell.devices} devices, but {measurement.num_devices} ran")
    allocator = cell.options.allocator
    if allocator not in (Allocator.default, measurement.allocator):
        found.append(f"asked for allocator {allocator}, but {measurement.allocator or 'an unknown one'} ran")
    return "; ".join([*found, *measurement.defects]) or None
