"""Whether a cell ran on the device and in the precision that were asked for."""

from accelbench.schema.cell import Cell
from accelbench.schema.measurement import Measurement


def judge(cell: Cell, measurement: Measurement) -> str | None:
    """Why the measurement is not one of `cell`, for its status `invalid`; None if it is."""
    for word in ("device", "precision"):
        asked, ran = getattr(cell, word), getattr(measurement, word)
        if asked != ran:
            return f"asked for {word} {asked}, but {ran} ran"
    if cell.devices != measurement.num_devices:
        return f"asked for {cell.devices} devices, but {measurement.num_devices} ran"
    return "; ".join(measurement.defects) or None
