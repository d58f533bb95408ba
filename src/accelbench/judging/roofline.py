"""A roofline model: how near a cell comes to the ceiling of its device, and which resource bounds the cell."""

from statistics import median

from accelbench.schema.ceilings import Ceilings, ceilings_in
from accelbench.schema.cell import Cell
from accelbench.schema.measurement import Measurement, Work
from accelbench.schema.record import Record
from accelbench.schema.vocab import SHARE_ONE_CPU, Bound

# Winograd's F(2x2, 3x3) needs 16 multiplications where a direct convolution needs 36 (Lavin and Gray, "Fast Algorithms
# for Convolutional Neural Networks", CVPR 2016). Operations are counted for the direct convolution, so a true rate may
# exceed the measured ceiling by this factor, but not by more.
WINOGRAD = 2.25


def ceilings_of(record: Record) -> Ceilings | None:
    """As `ceilings_of_cell`, for the ceilings in a record."""
    num_devices = record.measurement.num_devices if record.measurement else 1
    return ceilings_of_cell(ceilings_in(record.environment), record.cell, num_devices)


def ceilings_of_cell(probed: Ceilings | None, cell: Cell, num_devices: int) -> Ceilings | None:
    """The ceilings of all devices of a cell together. None without a probe, or if other load ran during the probe."""
    if probed is None or probed.disturbance(cell.precision):
        return None
    return probed if cell.device in SHARE_ONE_CPU else probed.of_devices(num_devices)


def step_size(cell: Cell, measurement: Measurement) -> float:
    """Samples of a step: the cell's batch size, or the measured mean if the user's function counts samples."""
    counted = measurement.samples_per_step if cell.model.samples else None
    return counted or cell.batch_size


def flops_per_s(cell: Cell, measurement: Measurement) -> float | None:
    """Floating-point operations per second; None if the operations or the speed are unknown."""
    rates, work = measurement.steady_rates, measurement.work
    if not rates or work is None or work.flops is None:
        return None
    return work.flops / step_size(cell, measurement) * median(rates)


def bound(work: Work, seconds: float, ceilings: Ceilings | None, precision: str) -> Bound | None:
    """The resource that bounds a step of `seconds`: the resource whose minimum time for the step is longest.

    The minimum times follow from the ceilings. If a minimum time is above `seconds`, its estimate is wrong. Then it is
    ignored, unless it is the minimum time of the computation. None if the operations or their ceiling are unknown.
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
    return max(possible, key=lambda word: possible[word])
