"""Whether other load took the cores that a cell needed: then its numbers say nothing about the cell."""

import math
from statistics import fmean

from accelbench.judging.warnings import MAX_OTHERS_PERCENT
from accelbench.schema.conditions import SystemSeries
from accelbench.schema.record import Record
from accelbench.schema.vocab import RETRIED, SHARE_ONE_CPU, Status

DISTURBED = "disturbed"  # what is shown in place of the status `ok`
BUSY, ALLOWED = "busy", "allowed"  # the entry of a record's environment where no cell counts as disturbed
# Cores. Below it, others slow a cell down by less than a quarter, even one whose threads all wait for each other.
MIN_OTHERS = 0.25
# By how many cores what is wanted has to exceed what there is: a kernel moves threads late, and counts time in ticks.
MARGIN = 0.1
MIN_STEAL = 0.1  # of what the cell used, and cores


def reason(record: Record) -> str | None:
    """What disturbed an ok cell, such as `others used 1.3 of 2 cores`; None if nothing did, or nothing tells.

    The numbers of a disturbed cell are not published.
    """
    measured, system = record.measurement, record.system
    if record.status != Status.ok or record.environment.get(BUSY) == ALLOWED or measured is None or system is None:
        return None
    cores = system.num_cores or record.environment.get("machine", {}).get("num_threads")
    threads = (measured.threads or 0) * record.cell.num_processes if record.cell.device in SHARE_ONE_CPU else 0
    return taken(system, measured.steady_boot_s, cores, threads)


def was_beside_others(record: Record) -> bool:
    """Whether other processes used the cores while the record's numbers were measured, though few of them perhaps."""
    name, measured = "other_cpu_utilization_percent", record.measurement
    percents = record.system.within(name, measured.steady_boot_s) if record.system and measured else []
    return bool(percents) and fmean(percents) > MAX_OTHERS_PERCENT


def is_retried(record: Record) -> bool:
    """Whether `retry=failed` measures the cell again."""
    return record.status in RETRIED or reason(record) is not None


def taken(system: SystemSeries, boot_s: tuple[float, float] | None, cores: int | None, threads: int = 0) -> str | None:
    """What other load took of the cores that sampled processes needed; None if nothing, or nothing tells.

    The processes wanted the cores that they used, and one more for each thread that waited for one. If threads wait
    though others use few cores, there are more threads than cores, or a quota stopped them: that is the cell's own.

    Args:
        system: the samples of the processes.
        boot_s: begin and end of the time that counts; see `SystemSeries.within`.
        cores: that the use by others is of; None if unknown.
        threads: that computed, at most: they all want a core where the kernel does not count how long threads wait.
    """

    def mean(name: str) -> float | None:
        values = system.within(f"{name}_percent", boot_s)
        return fmean(values) / 100 if values else None

    own, others = mean("cpu_utilization") or 0.0, mean("other_cpu_utilization")
    waiting, steal = mean("waiting"), mean("steal")
    if cores is None:
        return None
    if steal is not None and steal > MIN_STEAL * max(1.0, own):
        return f"the hypervisor gave {steal:.1f} of {cores} cores to other machines"
    if others is None or others < MIN_OTHERS:
        return None
    throttled = system.within("cpu_quota_throttled_s", boot_s)  # cumulative
    if throttled and throttled[-1] > throttled[0]:
        wanted = own
    else:
        wanted = max(own, threads) if waiting is None else own + waiting
    return f"others used {others:.1f} of {cores} cores" if wanted + others > cores + MARGIN else None


def while_sampled(system: SystemSeries | None) -> str | None:
    """As `taken`, over all samples."""
    return None if system is None else taken(system, (-math.inf, math.inf), system.num_cores)
