"""What the host sees of a cell's processes: samples, and its own clock. It also ends what a cell leaves behind."""

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
from accelbench.devices.proc import TICKS_PER_S, CpuTimes, cpu_times, started_boot_s, throttle_files, throttled_s
from accelbench.schema.measurement import SystemSeries

MB = 1e6  # bytes
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# The kernel counts processor time in ticks of 10 ms: a utilisation over less than five ticks means nothing.
SHORTEST_INTERVAL_S = 0.05
# A sample takes processor time from the cell: .1 ms on idle cores, .5 ms on busy ones, whose caches do not hold the
# sampler's data. The pause after it is so many times as long that the cell loses .2 %; with many processes, of which a
# sample takes over a millisecond, it loses more, since utilisation, power and energy need two samples a second.
PAUSE_PER_COST = 500
SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 0.5
MAX_THREADS = 64  # of the tree whose waiting is read, at some 10 us each
# Reasons for low GPU clocks that no user asked for: hardware slowdown, temperature (seen by the driver or by the
# hardware), power brake (nvml.h, nvmlClocksEventReason...).
SLOWED_DOWN = 0x8 | 0x20 | 0x40 | 0x80
KILL_S = 5.0  # a process that has not ended so long after SIGKILL hangs in a driver
POLL_S = 0.001


def children(pid: int) -> list[int]:
    """The process ids of the children, zombies included; empty if the process has ended."""
    pids: list[int] = []
    # The kernel's list costs some microseconds per thread; psutil reads every process of the machine. A thread or
    # process may end meanwhile: then it has no children.
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            path = f"/proc/{pid}/task/{thread}/children"
            with contextlib.suppress(OSError), open(path, "rb", buffering=0) as file:  # unbuffered: half the time
                pids += map(int, file.read().split())
    return pids


def descendants(pid: int) -> list[int]:
    """The process ids of all descendants, zombies included."""
    pids = children(pid)
    for descendant in pids:  # the list grows
        pids += children(descendant)
    return pids


def end_orphans(staying: Collection[int]) -> None:
    """Kills and reaps each child but those `staying`, for at most `KILL_S`; see `lifeline.adopt_orphans`."""
    deadline = time.monotonic() + KILL_S
    while orphans := [pid for pid in children(os.getpid()) if pid not in staying]:
        for pid in orphans:
            with contextlib.suppress(PermissionError):  # it has become another user's
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
    "throttled": lambda handle: float(pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle) & SLOWED_DOWN != 0),
    "sm_clock_mhz": lambda handle: pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM),
}


class _Usage(NamedTuple):
    """What a process uses, or several together: times and page faults include waited-for children's."""

    memory_bytes: int  # resident
    cpu_ticks: int
    system_ticks: int  # the part of it that the kernel worked for the process
    page_faults: int  # minor and major ones


class _Moment(NamedTuple):
    """What was counted until a sample."""

    at_s: float
    usage: _Usage  # of the tree
    machine: CpuTimes
    waited_ns: dict[str, int]  # thread -> see `_waits`


class Sampler:
    """Samples a process and its descendants at each call of `sample`; the host calls it again after `pause_s`.

    `host_memory_mb` sums up resident sets, each with its shared pages. Processor time includes processes that ended and
    were waited for; `cpu_system_percent` is the part that the kernel worked. `other_cpu_utilization_percent` is the use
    by all others of the cell's cores, `steal_percent` what a hypervisor took while these had work, `waiting_percent`
    the time for which threads (at most `MAX_THREADS`) were ready and had no core, 100 for one that always waits.
    `gpu_<i>_...` describe the i-th visible GPU as a whole. A figure that the system doesn't report is None.
    """

    def __init__(self, pid: int, num_gpus: int = 0, others: Sequence[int] = ()) -> None:
        """Starts without a sample; the utilisation of the first one is measured from here.

        `pid` is the root of the processes, whose end ends the samples; so are `others`, which may end before. The first
        `num_gpus` GPUs count.
        """
        self._roots = [pid, *others]
        self._queries = _queries(num_gpus)
        self._times_s: list[float] = []
        self._values: dict[str, list[float | None]] = {}
        self._memory_bytes: list[int] = []
        self._last: _Moment | None = None  # None once the root has ended
        self.pause_s = SHORTEST_PAUSE_S
        with contextlib.suppress(OSError):  # it has ended, or the system has no /proc
            self._started_s = started_boot_s(pid)
            self._cores = os.sched_getaffinity(0)
            self._last = self._look()

    def sample(self) -> None:
        """Takes one sample, if the root is still alive."""
        before = self._last
        if before is None:
            return
        start_s = time.thread_time()
        try:
            self._last = now = self._look()
        except OSError:
            self._last = None
            return
        self._memory_bytes.append(now.usage.memory_bytes)
        sampled: dict[str, float | None] = {"host_memory_mb": now.usage.memory_bytes / MB, **_shares(before, now)}
        for name, query in self._queries.items():
            sampled[name] = gpu.ask(query)
        self._times_s.append(time.clock_gettime(time.CLOCK_BOOTTIME) - self._started_s)
        for name, value in sampled.items():
            self._values.setdefault(name, []).append(value)
        rest_s = PAUSE_PER_COST * (time.thread_time() - start_s)
        self.pause_s = min(max(SHORTEST_PAUSE_S, rest_s), LONGEST_PAUSE_S)

    def series(self, peak_bytes: int | None = None, until_s: float | None = None) -> SystemSeries:
        """The samples so far.

        The peak of memory is `peak_bytes`, or the largest sample up to `until_s` of CLOCK_BOOTTIME if that is larger.
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

    def _look(self) -> _Moment:
        """Raises an OSError if the root has ended."""
        tree = [*self._roots]
        for root in self._roots:
            tree += descendants(root)
        return _Moment(time.monotonic(), _measure(tree), cpu_times(self._cores), _waits(tree))


def _shares(before: _Moment, after: _Moment) -> dict[str, float | None]:
    """What happened between two samples; None if they are too near, or a sum has decreased."""
    # It does when a process ends that its parent does not wait for: what it used is then lost.
    wall_s = after.at_s - before.at_s
    # Whole ticks: as a part of the whole, the kernel's time is never larger by a rounding error.
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
    """What the tree uses; raises an OSError if its root has ended."""
    usages = [_usage(tree[0])]
    if usages[0].memory_bytes == 0:  # a zombie, or about to be one
        raise ProcessLookupError(f"process {tree[0]} has ended")
    for pid in tree[1:]:
        with contextlib.suppress(OSError):  # it has ended meanwhile
            usages.append(_usage(pid))
    return _Usage(*map(sum, zip(*usages, strict=True)))


def _usage(pid: int) -> _Usage:
    """Raises an OSError if the process has been waited for. One file, proc_pid_stat(5): psutil's three cost more."""
    with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
        fields = file.read().decode(errors="replace").rpartition(")")[2].split()  # from the third one on
    user, system, children_user, children_system = map(int, fields[11:15])
    return _Usage(
        memory_bytes=int(fields[21]) * PAGE_BYTES,
        cpu_ticks=user + system + children_user + children_system,
        system_ticks=system + children_system,
        page_faults=sum(map(int, fields[7:11])),
    )


def _waits(pids: Iterable[int]) -> dict[str, int]:
    """Thread -> nanoseconds for which it was ready and had no core, of the first threads of these processes."""
    # Field 2 of /proc/<pid>/task/<thread>/schedstat (Linux kernel, Documentation/scheduler/sched-stats.rst).
    waited_ns: dict[str, int] = {}
    for pid in pids:
        with contextlib.suppress(OSError):  # it has ended, or the kernel has no such file
            for thread in os.listdir(f"/proc/{pid}/task")[: MAX_THREADS - len(waited_ns)]:
                with open(f"/proc/{pid}/task/{thread}/schedstat", "rb", buffering=0) as file:
                    waited_ns[thread] = int(file.read().split()[1])
    return waited_ns


def _queries(num_gpus: int) -> dict[str, Callable[[], float | None]]:
    """The counters of throttling (CPU quota, temperature) and energy, and figures of GPUs, by the name of a series."""
    queries = dict(energy_counters.counters(num_gpus))
    if files := throttle_files():
        queries["cpu_quota_throttled_s"] = functools.partial(throttled_s, files)
    # Only the first package: a large machine has hundreds of these files, one per thread.
    heat = Path("/sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_count")
    if heat.exists():
        queries["cpu_thermal_throttles"] = functools.partial(_number_in, heat)
    for index, handle in enumerate(gpu.first_handles(num_gpus)):
        for figure, query in FIGURES.items():
            queries[f"gpu_{index}_{figure}"] = functools.partial(query, handle)
    return queries


def _number_in(path: Path) -> float | None:
    """None if it can't be read now."""
    with contextlib.suppress(OSError, ValueError):
        return float(path.read_text())
    return None
