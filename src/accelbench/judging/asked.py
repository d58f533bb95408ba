"""Whether a cell is invalid: another device or precision ran than was asked for, or the engine found a defect."""

from accelbench.schema.cell import Cell
from accelbench.schema.measurement import Measurement


def judge(cell: Cell, measurement: Measurement) -> str | None:
    """Why the cell is invalid: what ran is not what was asked for, or has a defect; None if it is valid."""
    found = []
    for word in ("device", "precision"):
        asked, ran = getattr(cell, word), getattr(measurement, word)
        if asked != ran:
            found.append(f"asked for {word} {asked}, but {ran} ran")
    if cell.devices != measurement.num_devices:
        found.append(f"asked for {cell.devices} devices, but {measurement.num_devices} ran")
    return "; ".join([*found, *measurement.defects]) or None
