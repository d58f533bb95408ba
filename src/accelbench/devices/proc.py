"""Reads /proc and /sys: the clocks, memory and cores of this process, and the limits of its container."""

import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path("/")  # the folder with proc/, sys/ and dev/; tests replace it
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# Column numbers in a processor's line in /proc/stat (proc_stat(5)).
USER, NICE, SYSTEM, STEAL = 1, 2, 3, 8


def started_boot_s(pid: int | str = "self") -> float:
    """Returns the time at which a process was forked, in seconds of CLOCK_BOOTTIME.

    The time is rounded down to 0.01 s (proc_pid_stat(5), field 22). Raises OSError if the process has ended.
    """
    return (
        int(Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[19])
        / TICKS_PER_S
    )


def high_water_bytes() -> int | None:
    """Returns the peak of this process's resident memory (VmHWM). Returns None if the kernel does not report it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), None)


class CpuTimes(NamedTuple):
    """Seconds since the machine started, summed over cores."""

    busy_s: float  # seconds in which processes computed
    stolen_s: float  # seconds that the hypervisor gave to other machines while a process was ready


def cpu_times(cores: Collection[int]) -> CpuTimes:
    """Returns how long these logical cores were busy, and how long other virtual machines used them instead.

    Raises OSError if the system has no /proc/stat.
    """
    names = {f"cpu{core}" for core in cores}
    text = Path("/proc/stat").read_text()
    lines = [line.split() for line in text.splitlines() if line.partition(" ")[0] in names]
    busy_ticks = sum(int(words[column]) for words in lines for column in (USER, NICE, SYSTEM))
    return CpuTimes(busy_ticks / TICKS_PER_S, sum(int(words[STEAL]) for words in lines) / TICKS_PER_S)


def cpu_quota() -> float | None:
    """Returns how many cores the cgroup allows on average, such as 1.5. Returns None without a limit."""
    # The result is the lowest quota of the group and its ancestors. The quota is in `cpu.max` (cgroup v2) or in
    # `cpu.cfs_quota_us` (v1). See Documentation/admin-guide/cgroup-v2.rst and scheduler/sched-bwc.rst of Linux.
    quotas = []
    for folder in _cgroups("cpu"):
        v1 = [*_words(folder / "cpu.cfs_quota_us"), *_words(folder / "cpu.cfs_period_us")]
        words = _words(folder / "cpu.max") or v1
        if len(words) == 2 and words[0] not in ("max", "-1"):
            quotas.append(int(words[0]) / int(words[1]))
    return min(quotas, default=None)


def memory_limit_bytes() -> int | None:
    """Returns the lowest memory limit of the cgroup and its ancestors, in bytes. Returns None without a limit."""
    words = []
    for folder in _cgroups("memory"):
        words += [*_words(folder / "memory.max"), *_words(folder / "memory.limit_in_bytes")]
    # v1 writes "no limit" as the largest multiple of the page size that fits into 63 bits.
    return min((int(word) for word in words if word != "max" and int(word) < 2**62), default=None)


def throttle_files() -> list[Path]:
    """Returns the files that report how long the CPU quota has stopped the cgroup. Finding the files is slow."""
    return [
        folder / "cpu.stat" for folder in _cgroups("cpu") if _throttled_s(folder / "cpu.stat") is not None
    ]


def throttled_s(files: Sequence[Path]) -> float | None:
    """Returns the seconds for which the CPU quota has stopped the cgroup so far, or None if no file reports them."""
    return max((seconds for file in files if (seconds := _throttled_s(file)) is not None), default=None)


def oom_kills() -> int:
    """Returns how many processes the kernel killed for lack of memory since the machine started, or 0 if unknown."""
    return int(_counts(Path("/proc/vmstat")).get("oom_kill", 0))


def _throttled_s(file: Path) -> float | None:
    counts = _counts(file)
    units = {"throttled_usec": 1e-6, "throttled_time": 1e-9}
    return next((int(counts[name]) * unit for name, unit in units.items() if name in counts), None)


def _counts(file: Path) -> dict[str, str]:
    """Reads a file of names and numbers, such as `throttled_usec 1000`, as a dict from name to number."""
    words = _words(file)
    return dict(zip(words[::2], words[1::2], strict=False))


def _cgroups(controller: str) -> Iterator[Path]:
    """Yields the folder of this process's cgroup for `controller`, then the folders of the cgroup's ancestors."""
    # In a container, /proc/self/cgroup may have the host's path. Then only ancestors of this path exist, such as the
    # mount.
    try:
        lines = (ROOT / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers or controller in controllers.split(","):
            mount = ROOT / "sys/fs/cgroup" / (controller if controllers else "")
            group = Path(path.lstrip("/"))
            yield from (mount / folder for folder in [group, *group.parents])


def _words(file: Path) -> list[str]:
    """Returns the words of a file. The list is empty if the file can't be read."""
    try:
        return file.read_text().split()
    except OSError:
        return []
