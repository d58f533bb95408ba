"""What /proc says of this process's clocks and memory, and of how busy the cores were."""

import os
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from accelbench.errors import UserError

REPLACES = "libfaketime"  # the library that makes clocks and sleeps jump, run faster or stand still
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# The columns of a processor's line in /proc/stat (proc_stat(5)).
USER, NICE, SYSTEM, STEAL = 0, 1, 2, 7


def check_clocks() -> None:
    """Checks that no library replaces the clocks that steps are timed with. Raises UserError: one does."""
    try:
        with open("/proc/self/maps") as maps:
            is_replaced = any(REPLACES in line for line in maps)
    except OSError:
        return
    if is_replaced:
        raise UserError(f"{REPLACES} replaces the clocks, so that nothing can be timed: run without it (LD_PRELOAD)")


def high_water_bytes() -> int | None:
    """The kernel's high-water mark of this process's resident memory; None if it is not reported."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return None


class CpuTimes(NamedTuple):
    """Seconds since the machine started, summed over cores."""

    busy_s: float  # that processes computed
    stolen_s: float  # that a hypervisor gave to others while a process was ready; 0 without a hypervisor
    num_cores: int  # those that are counted


def cpu_times(cores: Collection[int], root: Path = Path("/")) -> CpuTimes:
    """The times of these logical cores. Raises OSError: the system has no /proc."""
    ticks = [0, 0]
    num = 0
    for line in (root / "proc/stat").read_text().splitlines():
        name, *columns = line.split()
        if not name.startswith("cpu"):
            break
        if name == "cpu" or int(name[3:]) not in cores:
            continue
        num += 1
        ticks[0] += sum(int(columns[column]) for column in (USER, NICE, SYSTEM))
        ticks[1] += int(columns[STEAL]) if len(columns) > STEAL else 0
    return CpuTimes(ticks[0] / TICKS_PER_S, ticks[1] / TICKS_PER_S, num)
