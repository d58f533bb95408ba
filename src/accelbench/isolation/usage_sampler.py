"""Samples the resources of a cell's processes and of the machine. Kills processes that a cell leaves behind."""

import contextlib
import functools
import os
import signal
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import pynvml

from accelbench.devices import energy_counters, gpu
from accelbench.devices.proc import (
    TICKS_PER_S,
    CpuTimes,
    cpu_times,
    started_boot_s,
    throttle_files,
    throttled_s,
)
from accelbench.schema.measurement import SystemSeries

MB = 1e6  # bytes
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# The kernel counts processor time in ticks of 10 ms. Over less than five ticks, a utilisation is too coarse.
SHORTEST_INTERVAL_S = 0.05
# Seconds between two samples. A sample takes processor time from the cell: 0.1 ms on idle cores, 0.5 ms on busy ones,
# whose caches do not hold the sampler's data. So the cell loses up to 0.25 %, or more if it has many processes.
PAUSE_S = 0.2
MAX_THREADS = 64  # threads whose waiting time is read; each takes about 10 us
# NVML's reasons for low GPU clocks, without the limits that a user has set: hardware slowdown, temperature (measured by
# the driver or by the hardware), power brake (nvml.h, nvmlClocksEventReason...).
SLOWED_DOWN = 0x8 | 0x20 | 0x40 | 0x80
KILL_S = 5.0  # seconds from SIGKILL until a process that has not ended counts as hung in a driver
POLL_S = 0.001


def children(pid: int) -> list[int]:
    """Returns the process ids of the children, including zombies. Returns an empty list if the process has ended."""
    pids: list[int] = []
    # Reads the kernel's lists, which takes some microseconds per thread. psutil would read every process of the
    # machine. A thread or process that ends meanwhile has no children.
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            path = f"/proc/{pid}/task/{thread}/children"
            # Without a buffer, reading takes half the time.
            with contextlib.suppress(OSError), open(path, "rb", buffering=0) as file:
                pids += map(int, file.read().split())
    return pids


def descendants(pid: int) -> list[int]:
    """The process ids of all descendants, including zombies."""
    pids = children(pid)
    for descendant in pids:  # the loop also covers the ids that it appends
        pids += children(descendant)
    return pids


def end_orphans(staying: Collection[int]) -> None:
    """Kills and reaps all children except those in `staying`. Gives up after `KILL_S`.

    After `lifeline.adopt_orphans`, these children include the orphans of earlier processes.
    """
    deadline = time.monotonic() + KILL_S
    while orphans := [pid for pid in children(os.getpid()) if pid not in staying]:
        for pid in orphans:
            with contextlib.suppress(PermissionError):  # the process may have changed its user
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, os.WNOHANG)
        if time.monotonic() > deadline:
            return
        time.sleep(POLL_S)


FIGURES: dict[str, Callable[[gpu.Handle], float]] = {
    "memory_mb": lambda handle: pynvml.nvmlDeviceGetMemoryInfo(handle).used / MB,
    "utilization_percent": lambda handle: pynvml.nvmlDeviceGetUtilizationRates(handle).gpu,
    "power_w": lambda handle: pynvml.nvmlDeviceGetPowerUsage(handle) / 1000,
    "temperature_c": lambda handle: pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU),
    "throttled": lambda handle: float(
        pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle) & SLOWED_DOWN != 0
    ),
    "sm_clock_mhz": lambda handle: pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM),
}


class _Usage(NamedTuple):
    """Resources of one or more processes. Their times and page faults include those of children that have ended."""

    memory_bytes: int  # resident
    cpu_ticks: int  # processor time, in user mode and in the kernel
    system_ticks: int  # processor time in the kernel
    page_faults: int  # minor and major ones


class _Counters(NamedTuple):
    """The counters at one sample."""

    at_s: float
    usage: _Usage  # of all processes of the cell
    machine: CpuTimes
    waited_ns: dict[str, int]  # see `_waits`


class Sampler:
    """Samples the cell's processes at each call of `sample`. The host waits `PAUSE_S` seconds between two calls.

    In percentages, 100 is one core. The main series are:

    - `host_memory_mb`: the sum of resident memory; a page that n processes share is counted n times
    - `cpu_utilization_percent`: processor time of the cell's processes, including processes that have ended
    - `cpu_system_percent`: the part of `cpu_utilization_percent` that was spent in the kernel
    - `other_cpu_utilization_percent`: processor time that all other processes used on the cell's cores
    - `steal_percent`: the time in which the cell's cores had work, but the hypervisor did not run them
    - `waiting_percent`: the time in which threads were ready but had no core, for at most `MAX_THREADS` threads
    - `gpu_<i>_...`: values of the i-th visible GPU; they include the use by other programs

    A value is None if the system does not report it.
    """

    def __init__(self, pid: int, num_gpus: int = 0, others: Sequence[int] = ()) -> None:
        """Prepares the sampling. The utilisation in the first sample covers the time since this call.

        `pid` and `others` are the processes of the cell. They and their descendants are sampled until `pid` ends;
        `others` may end earlier. The first `num_gpus` GPUs are sampled.
        """
        self._roots = [pid, *others]
        self._queries = _queries(num_gpus)
        self._times_s: list[float] = []
        self._values: dict[str, list[float | None]] = {}
        self._memory_bytes: list[int] = []
        self._last: _Counters | None = None  # None after the first process has ended
        with contextlib.suppress(OSError):  # the process has ended, or the system has no /proc
            self._started_s = started_boot_s(pid)
            self._cores = os.sched_getaffinity(0)
            self._last = self._read_counters()

    def sample(self) -> None:
        """Takes one sample, if the first process is still alive."""
        before = self._last
        if before is None:
            return
        try:
            self._last = now = self._read_counters()
        except OSError:
            self._last = None
            return
        self._memory_bytes.append(now.usage.memory_bytes)
        sampled: dict[str, float | None] = {
            "host_memory_mb": now.usage.memory_bytes / MB,
            **_shares(before, now),
        }
        for name, query in self._queries.items():
            sampled[name] = gpu.ask(query)
        self._times_s.append(time.clock_gettime(time.CLOCK_BOOTTIME) - self._started_s)
        for name, value in sampled.items():
            self._values.setdefault(name, []).append(value)

    def series(self, peak_bytes: int | None = None, until_s: float | None = None) -> SystemSeries:
        """Returns all samples up to now.

        The peak memory is the maximum of `peak_bytes` and the memory in the samples up to `until_s` (a time of
        CLOCK_BOOTTIME; None: all samples).
        """
        peaks = [] if peak_bytes is None else [peak_bytes]
        for t_s, num_bytes in zip(self._times_s, self._memory_bytes, strict=True):
            if until_s is None or self._started_s + t_s <= until_s:
                peaks.append(num_bytes)
        return SystemSeries(
            started_boot_s=self._started_s if self._times_s else None,
            t_s=self._times_s,
            values=self._values,
            peak_host_bytes=max(peaks, default=None),
            num_cores=len(self._cores) if self._times_s else None,
        )

    def _read_counters(self) -> _Counters:
        """Reads all counters. Raises OSError if the cell's first process has ended."""
        tree = [*self._roots]
        for root in self._roots:
            tree += descendants(root)
        return _Counters(time.monotonic(), _measure(tree), cpu_times(self._cores), _waits(tree))


def _shares(before: _Counters, after: _Counters) -> dict[str, float | None]:
    """Returns the mean value of each series between two samples.

    All values are None if the samples are too close, or if a counter has decreased. A counter decreases if a process
    ends and its parent does not wait for it, because the kernel then forgets how much the process has used.
    """
    wall_s = after.at_s - before.at_s
    # Differences in whole ticks, so that rounding never makes the kernel's part larger than the whole.
    cpu_ticks = after.usage.cpu_ticks - before.usage.cpu_ticks
    system_ticks = after.usage.system_ticks - before.usage.system_ticks
    page_faults = after.usage.page_faults - before.usage.page_faults
    others_s = after.machine.busy_s - before.machine.busy_s - cpu_ticks / TICKS_PER_S
    waited_ns = sum(max(0, ns - before.waited_ns.get(thread, 0)) for thread, ns in after.waited_ns.items())
    shares = {
        "cpu_utilization_percent": 100 * cpu_ticks / TICKS_PER_S / wall_s,
        "cpu_system_percent": 100 * system_ticks / TICKS_PER_S / wall_s,
        "page_faults_per_s": page_faults / wall_s,
        "waiting_percent": waited_ns / 1e7 / wall_s if any(after.waited_ns.values()) else None,
        "other_cpu_utilization_percent": max(0.0, 100 * others_s / wall_s),
        "steal_percent": 100 * (after.machine.stolen_s - before.machine.stolen_s) / wall_s,
    }
    if wall_s < SHORTEST_INTERVAL_S or min(cpu_ticks, system_ticks, page_faults) < 0:
        return dict.fromkeys(shares)
    return shares


def _measure(tree: Sequence[int]) -> _Usage:
    """Returns the sum of the resources of all processes in `tree`. Raises OSError if the first process has ended."""
    usages = [_usage(tree[0])]
    if usages[0].memory_bytes == 0:  # it is a zombie, or will be one soon
        raise ProcessLookupError(f"process {tree[0]} has ended")
    for pid in tree[1:]:
        with contextlib.suppress(OSError):  # the process has ended meanwhile
            usages.append(_usage(pid))
    return _Usage(*map(sum, zip(*usages, strict=True)))


def _usage(pid: int) -> _Usage:
    """Reads the resources of a process from /proc/<pid>/stat (see proc_pid_stat(5)). Raises OSError if it has ended."""
    with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
        # Field 3, the state, and the following ones.
        fields = file.read().decode(errors="replace").rpartition(")")[2].split()
    user, system, children_user, children_system = map(int, fields[11:15])
    return _Usage(
        memory_bytes=int(fields[21]) * PAGE_BYTES,
        cpu_ticks=user + system + children_user + children_system,
        system_ticks=system + children_system,
        page_faults=sum(map(int, fields[7:11])),
    )


def _waits(pids: Iterable[int]) -> dict[str, int]:
    """Returns, by thread id, the nanoseconds that a thread was ready without a core. Reads at most `MAX_THREADS`.

    The time is field 2 of /proc/<pid>/task/<thread>/schedstat (Linux kernel, Documentation/scheduler/sched-stats.rst).
    """
    waited_ns: dict[str, int] = {}
    for pid in pids:
        with contextlib.suppress(OSError):  # the process has ended, or the kernel has no such file
            for thread in os.listdir(f"/proc/{pid}/task")[: MAX_THREADS - len(waited_ns)]:
                with open(f"/proc/{pid}/task/{thread}/schedstat", "rb", buffering=0) as file:
                    waited_ns[thread] = int(file.read().split()[1])
    return waited_ns


def _queries(num_gpus: int) -> dict[str, Callable[[], float | None]]:
    """Returns, for each series, a function that reads its value: energy and throttle counters, and GPU values."""
    queries = dict(energy_counters.counters(num_gpus))
    if files := throttle_files():
        queries["cpu_quota_throttled_s"] = functools.partial(throttled_s, files)
    # The count of the first CPU package only: a large machine has hundreds of these files, one per thread.
    heat = Path("/sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_count")
    if heat.exists():
        queries["cpu_thermal_throttles"] = functools.partial(_number_in, heat)
    for index, handle in enumerate(gpu.first_handles(num_gpus)):
        for figure, query in FIGURES.items():
            queries[f"gpu_{index}_{figure}"] = functools.partial(query, handle)
    return queries


def _number_in(path: Path) -> float | None:
    """Returns the number in a file. Returns None if the file can't be read now."""
    with contextlib.suppress(OSError, ValueError):
        return float(path.read_text())
    return None
