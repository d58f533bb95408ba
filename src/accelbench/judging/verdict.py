"""Decides whether the numbers of a cell are ok, invalid or disturbed. Only this module decides it."""

import math
import os
from collections.abc import Iterator
from statistics import fmean, median
from typing import Literal

from accelbench.errors import UserError
from accelbench.schema.ceilings import Ceilings
from accelbench.schema.cell import RETRIED, SHARE_ONE_CPU, Allocator, Cell, Status
from accelbench.schema.measurement import Interval, Measurement, SystemSeries
from accelbench.schema.record import Record

DISTURBED: Literal["disturbed"] = "disturbed"  # shown in place of the status `ok`
Word = Status | Literal["disturbed"]
BUSY, ALLOWED = "busy", "allowed"  # entry of a record's environment; with it, no cell is disturbed
# Some machines are never quiet, such as a shared one that runs tests. With `allowed`, cells are ok there although other
# programs take their cores. accelbench then does not wait for a quiet machine. This is an environment variable because
# it belongs to the machine, not to a cell.
BUSY_VARIABLE = "ACCELBENCH_BUSY"
# The fewest cores of other programs that disturb a cell. Fewer cores slow a cell down by less than a quarter, even if
# all its threads wait for each other.
MIN_OTHERS = 0.25
# Cores by which the demand must exceed the number of cores: a kernel moves threads late, and counts time in ticks.
MARGIN = 0.1
# A hypervisor disturbs a cell if it takes more than this number of cores, and more than this share of the used cores.
MIN_STEAL = 0.1
NEAR_S = 0.5  # longest pause between samples: an interval widened by it at both ends has two samples
ALWAYS = (-math.inf, math.inf)
# Winograd's F(2x2, 3x3) needs 16 multiplications where a direct convolution needs 36 (Lavin and Gray, "Fast Algorithms
# for Convolutional Neural Networks", CVPR 2016). Operations are counted for the direct convolution, so a true rate may
# exceed the measured ceiling by this factor, but not by more.
WINOGRAD = 2.25


def verdict_on(record: Record) -> tuple[Word, str | None]:
    """Returns the status that reports show for a record, and why if it is not ok.

    If other programs disturbed the cell of an ok record, the status is `disturbed`. It stays `ok` if the record's
    environment allows other programs (see `BUSY_VARIABLE`).
    """
    measured = record.measurement
    if record.status != Status.ok or measured is None or record.environment.get(BUSY) == ALLOWED:
        return record.status, record.reason
    why = disturbance(record.cell, measured, record.system)
    return (DISTURBED if why else Status.ok), why


def why_disturbed(record: Record) -> str | None:
    """Returns what disturbed an ok cell, such as `others used 1.3 of 2 cores`. Returns None if nothing disturbed it."""
    word, why = verdict_on(record)
    return why if word == DISTURBED else None


def is_retried(record: Record) -> bool:
    """Returns True if `retry=failed` measures the cell again."""
    word, _ = verdict_on(record)
    return word in RETRIED or word == DISTURBED


def is_allowed() -> bool:
    """Returns True if cells on a busy machine are ok. Raises UserError if `BUSY_VARIABLE` has an unknown value."""
    value = os.environ.get(BUSY_VARIABLE)
    if value and value != ALLOWED:
        raise UserError(
            f"{BUSY_VARIABLE}={value}: unknown value. Use {ALLOWED} to accept cells although other programs take their "
            "cores. Unset the variable to measure such cells again."
        )
    return value == ALLOWED


def judge(cell: Cell, measurement: Measurement, probed: Ceilings | None = None) -> str | None:
    """Returns why the numbers can't be true, or None if they can.

    `probed` contains the peak rates that were measured on one device. It is None if there are none.
    """
    reasons = [*_others_ran(cell, measurement), *measurement.defects, *_too_fast(cell, measurement, probed)]
    return "; ".join(reasons) or None


def _others_ran(cell: Cell, measurement: Measurement) -> Iterator[str]:
    for word in ("device", "precision"):
        asked, ran = getattr(cell, word), getattr(measurement, word)
        if asked != ran:
            yield f"asked for {word} {asked}, but {ran} ran"
    if cell.devices != measurement.num_devices:
        yield f"asked for {cell.devices} devices, but {measurement.num_devices} ran"
    allocator = cell.options.allocator
    if allocator not in (Allocator.default, measurement.allocator):
        yield f"asked for allocator {allocator}, but {measurement.allocator or 'an unknown one'} ran"
    # Unless a function of the user counts samples, no step has more samples than the batch.
    most = cell.batch_size * (cell.keras.steps_per_execution if cell.keras else 1)
    if cell.model.samples is None and any(
        block.num_samples > most * block.num_steps for block in measurement.blocks
    ):
        yield f"more than {most} samples were counted in a step"


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


def share_of_ceiling(cell: Cell, measurement: Measurement, probed: Ceilings | None) -> float | None:
    """Returns the cell's operations per second, divided by the ceiling. Returns None if one of them is unknown."""
    rate = flops_per_s(cell, measurement)
    ceilings = ceilings_of_cell(probed, cell, measurement.num_devices)
    ceiling = ceilings.ceiling_of(cell.precision) if ceilings else None
    return None if rate is None or ceiling is None else rate / ceiling


def _too_fast(cell: Cell, measurement: Measurement, probed: Ceilings | None) -> Iterator[str]:
    share = share_of_ceiling(cell, measurement, probed)
    if share is None or measurement.work is None:
        return
    # Convolutions with large kernels may be far faster, because with FFTs they need fewer operations than are counted.
    if (1 - measurement.work.large_kernels) * share > WINOGRAD:
        most = f"algorithms that save operations reach at most {WINOGRAD} times the ceiling"
        yield f"{share:.2f} times as many operations per second as the device's ceiling (peak rate): {most}"


def disturbance(cell: Cell, measurement: Measurement, system: SystemSeries | None) -> str | None:
    """Returns what disturbed the cell, such as `others used 1.3 of 2 cores`.

    Returns None if nothing disturbed it, or if `system` does not show it.
    """
    if system is None:
        return None
    if system.busy_gpus is not None:
        return system.busy_gpus
    threads = (measurement.threads or 0) * cell.num_processes if cell.device in SHARE_ONE_CPU else 0
    return load_beside(system, measurement.steady_boot_s, threads)


def load_beside(
    system: SystemSeries | None, boot_s: Interval | None = ALWAYS, threads: int = 0
) -> str | None:
    """Describes the load of programs that took cores from the sampled processes.

    Returns None if no such load was observed.

    Args:
        system: the sampler's series.
        boot_s: the interval.
        threads: threads that computed. If the kernel does not report how long they waited for cores, the processes
            are assumed to have wanted one core per thread.
    """
    # The processes wanted the cores that they used, plus one core for each thread that waited. If threads wait although
    # other programs use few cores, the cell has too many threads, or a quota stopped it.
    if system is None or (cores := system.num_cores) is None:
        return None

    def mean(name: str) -> float | None:
        near = boot_s and (boot_s[0] - NEAR_S, boot_s[1] + NEAR_S)
        values = system.within(f"{name}_percent", boot_s) or system.within(f"{name}_percent", near)
        return fmean(values) / 100 if values else None

    used = mean("cpu_utilization") or 0.0
    others = mean("other_cpu_utilization")
    waiting, steal = mean("waiting"), mean("steal")
    if steal is not None and steal > MIN_STEAL * max(1.0, used):
        return f"the hypervisor gave {steal:.1f} of {cores} cores to other machines"
    if others is None or others < MIN_OTHERS:
        return None
    if system.increase("cpu_quota_throttled_s", boot_s):
        wanted = used
    else:
        wanted = max(used, threads) if waiting is None else used + waiting
    return f"others used {others:.1f} of {cores} cores" if wanted + others > cores + MARGIN else None
