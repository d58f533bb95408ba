"""A roofline model. It shows how near a cell comes to its device's ceiling, and which resource bounds the cell."""

from statistics import median

from accelbench.schema.ceilings import Ceilings
from accelbench.schema.cell import Cell
from accelbench.schema.measurement import Measurement, Work
from accelbench.schema.vocab import SHARE_ONE_CPU, Bound

# Winograd's F(2x2, 3x3) needs 16 multiplications where a direct convolution needs 36 (Lavin and Gray, "Fast Algorithms
# for Convolutional Neural Networks", CVPR 2016). Operations are counted for the direct convolution, so a true rate may
# exceed the measured ceiling by this factor, but not by more.
WINOGRAD = 2.25


def ceilings_of_cell(probed: Ceilings | None, cell: Cell, num_devices: int) -> Ceilings | None:
    """Returns the ceilings of all devices of a cell together. Returns None if the device was not probed."""
    if probed is None:
        return None
    return probed if cell.device in SHARE_ONE_CPU else probed.of_devices(num_devices)


def step_size(cell: Cell, measurement: Measurement) -> float:
    """Returns the samples per step: the batch size, or the measured mean if the user's function counts samples."""
    counted = measurement.samples_per_step if cell.model.samples else None
    return counted or cell.batch_size


def flops_per_s(cell: Cell, measurement: Measurement) -> float | None:
    """Returns floating-point operations per second. Returns None if the operations or the speed are unknown."""
    rates, work = measurement.steady_rates, measurement.work
    if not rates or work is None or work.flops is None:
        return None
    return work.flops / step_size(cell, measurement) * median(rates)


def bound(work: Work, seconds: float, ceilings: Ceilings | None, precision: str) -> Bound | None:
    """Returns the resource that bounds a step which took `seconds`. Returns None if operations or ceiling are unknown.

    For every resource, the ceiling gives a minimum time of the step. The resource with the longest minimum time bounds
    the step. If the minimum time for memory or for launches is longer than `seconds`, it must be wrong, and is ignored.
    """
    ceiling = ceilings.ceiling_of(precision) if ceilings else None
    if work.flops is None or ceilings is None or ceiling is None:
        return None
    least = {Bound.compute: work.flops / ceiling}
    if work.bytes is not None:
        least[Bound.memory] = work.bytes / ceilings.memory_bytes_per_s
    if work.num_operators is not None:
        least[Bound.launch] = work.num_operators * ceilings.launch_s
    possible = {word: time_s for word, time_s in least.items() if word == Bound.compute or time_s <= seconds}
    return max(possible, key=possible.__getitem__)
