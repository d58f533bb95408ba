"""Whether a cell is invalid: what ran is not what was asked for, or there is a defect."""

from collections.abc import Iterator

from accelbench.schema.cell import Cell
from accelbench.schema.measurement import Measurement
from accelbench.schema.vocab import Allocator


def judge(cell: Cell, measurement: Measurement) -> str | None:
    """Why the cell is invalid; None if it is valid."""
    return "; ".join([*_others(cell, measurement), *measurement.defects]) or None


def _others(cell: Cell, measurement: Measurement) -> Iterator[str]:
    for word in ("device", "precision"):
        asked, ran = getattr(cell, word), getattr(measurement, word)
        if asked != ran:
            yield f"asked for {word} {asked}, but {ran} ran"
    if cell.devices != measurement.num_devices:
        yield f"asked for {cell.devices} devices, but {measurement.num_devices} ran"
    allocator = cell.options.allocator
    if allocator not in (Allocator.default, measurement.allocator):
        yield f"asked for allocator {allocator}, but {measurement.allocator or 'an unknown one'} ran"
    # Without a function of the user that counts samples, no step has more of them than were asked for.
    most = cell.batch_size * (cell.keras.steps_per_execution if cell.keras else 1)
    if cell.model.samples is None and any(block.num_samples > most * block.num_steps for block in measurement.blocks):
        yield f"it counts more than {most} samples a step"
