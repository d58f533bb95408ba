"""Whether other load took the cores that sampled processes needed."""

import math
from statistics import fmean

from accelbench.schema.measurement import SystemSeries

# Cores. Below it, others slow a cell down by less than a quarter, even one whose threads all wait for each other.
MIN_OTHERS = 0.25
# By how many cores what is wanted has to exceed what there is: a kernel moves threads late, and counts time in ticks.
MARGIN = 0.1
MIN_STEAL = 0.1  # of what the cell used, and cores
NEAR_S = 0.5  # the longest pause between samples: a window that lies between two of them has both within it


def while_sampled(system: SystemSeries | None) -> str | None:
    """What disturbed the processes of these samples, at any time; None if nothing did, or nothing tells."""
    return None if system is None else taken(system, (-math.inf, math.inf), system.num_cores)


def taken(system: SystemSeries, boot_s: tuple[float, float] | None, cores: int | None, threads: int = 0) -> str | None:
    """What other load took of the cores that sampled processes needed; None if nothing, or nothing tells."""
    # The processes wanted the cores that they used, and one more for each thread that waited for one. If threads wait
    # though others use few cores, there are more threads than cores, or a quota stopped them: that is the cell's own.
    # `threads` that computed, at most, all want a core where the kernel does not count how long threads wait.

    def mean(name: str) -> float | None:
        near = boot_s and (boot_s[0] - NEAR_S, boot_s[1] + NEAR_S)
        values = system.within(f"{name}_percent", boot_s) or system.within(f"{name}_percent", near)
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
