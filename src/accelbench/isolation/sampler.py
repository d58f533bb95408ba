"""The sampler: memory and processor time of a process tree, and the state of its GPUs as NVML reports it."""

import functools
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pynvml

from accelbench.devices import cgroup, energy_counters
from accelbench.devices import nvml as gpus
from accelbench.isolation.processes import descendants
from accelbench.schema.conditions import SystemSeries

MB = 1e6  # bytes
# The kernel counts processor time in ticks of 10 ms: a utilisation over less than five ticks means nothing.
SHORTEST_INTERVAL_S = 0.05
# Reasons for low GPU clocks that no user asked for: hardware slowdown, temperature (seen by the driver or by the
# hardware), power brake (nvml.h, nvmlClocksEventReason...).
SLOWED_DOWN = 0x8 | 0x20 | 0x40 | 0x80


class _Usage(NamedTuple):
    """What a process uses, or several together: times and page faults include waited-for children's.

    Attributes:
        memory_bytes: resident.
        cpu_s: processor seconds.
        system_s: the part of them that the kernel worked for the process.
        page_faults: None if the kernel tells none.
    """

    memory_bytes: int
    cpu_s: float
    system_s: float
    page_faults: int | None

    def plus(self, other: "_Usage") -> "_Usage":
        known = self.page_faults is not None and other.page_faults is not None
        faults = (self.page_faults or 0) + (other.page_faults or 0) if known else None
        return _Usage(
            self.memory_bytes + other.memory_bytes, self.cpu_s + other.cpu_s, self.system_s + other.system_s, faults
        )


class Sampler:
    """Samples a process and its descendants at each call of `sample`; the host calls it about ten times a second.

    `host_memory_mb` is the sum of the resident set sizes: pages shared between processes, such as a library's or a
    forked parent's, count once in each of them. `cpu_utilization_percent` is processor time over wall time, 100 for
    one busy core; it includes processes that have ended and been waited for, as do `cpu_system_percent`, the part of it
    that the kernel worked for the tree, and `page_faults_per_s`. A process whose parent has ended no longer belongs to
    the tree. `other_cpu_utilization_percent` is the use by all other processes of the machine, the
    sampler included.

    `gpu_<i>_...` describe the i-th visible GPU as a whole, whichever processes use it: memory in use, the share of
    the driver's sampling period in which a kernel ran, power, temperature and the clock of the multiprocessors.
    A figure that the driver doesn't report is None.
    """

    def __init__(
        self,
        pid: int,
        num_gpus: int = 0,
        nvml: Any = pynvml,
        environ: Mapping[str, str] = os.environ,
        others: Sequence[int] = (),
    ) -> None:
        """Starts without a sample; the utilisation of the first one is measured from here.

        Args:
            pid: the root of the process tree; if there is no such process, the series is empty.
            num_gpus: how many of the visible GPUs the cell uses, the first ones; 0 on every other device.
            nvml: the pynvml module or a fake of it.
            environ: where CUDA_VISIBLE_DEVICES is read from.
            others: further ranks of the cell, whose trees are included. Sampling goes on if one of them ends.
        """
        self._others_pids = others
        self._root: psutil.Process | None = None
        self._descendants: dict[int, psutil.Process] = {}
        self._queries = _throttle_queries() | energy_counters.counters(num_gpus, nvml, environ)
        self._queries |= _gpu_queries(num_gpus, nvml, environ) if num_gpus else {}
        self._times_s: list[float] = []
        self._values: dict[str, list[float | None]] = {}
        self._memory_bytes: list[int] = []
        try:
            self._root = psutil.Process(pid)
            self._started_s = _started_s(pid)
            self._last = (time.monotonic(), self._measure())
            self._last_machine = (self._last[0], _machine_busy_s())
        except (psutil.Error, OSError):
            self._root = None

    def sample(self) -> bool:
        """Takes one sample.

        Returns:
            Whether the root was still alive; if not, no sample was taken, and none will be.
        """
        if self._root is None:
            return False
        try:
            usage = self._measure()
        except psutil.Error:
            self._root = None
            return False
        now = time.monotonic()
        self._memory_bytes.append(usage.memory_bytes)
        rates = self._rates(now, usage)
        sampled: dict[str, float | None] = {
            "host_memory_mb": usage.memory_bytes / MB,
            **rates,
            "other_cpu_utilization_percent": self._other_utilisation(now, rates["cpu_utilization_percent"]),
            **{name: gpus.ask(query) for name, query in self._queries.items()},
        }
        self._times_s.append(time.clock_gettime(time.CLOCK_BOOTTIME) - self._started_s)
        for name, value in sampled.items():
            self._values.setdefault(name, []).append(value)
        return True

    def series(self, peak_bytes: int | None = None, until_s: float | None = None) -> SystemSeries:
        """The samples so far.

        Args:
            peak_bytes: a peak of memory from another source, such as the process's VmHWM. The peak of the series is
                the larger of this and the largest sample.
            until_s: end of the measurement, in seconds since the machine started. Later samples are left out, since
                they belong to other work, such as checking the output. None for all.
        """
        times = [t_s for t_s in self._times_s if until_s is None or self._started_s + t_s <= until_s]
        sampled = self._memory_bytes[: len(times)]
        peaks = [*sampled, *([peak_bytes] if peak_bytes is not None else [])]
        return SystemSeries(
            started_boot_s=self._started_s if times else None,
            t_s=times,
            values={name: values[: len(times)] for name, values in self._values.items()},
            peak_host_bytes=max(peaks, default=None),
        )

    def _rates(self, now: float, usage: _Usage) -> dict[str, float | None]:
        (before, used), self._last = self._last, (now, usage)
        wall_s, spent_s, system_s = now - before, usage.cpu_s - used.cpu_s, usage.system_s - used.system_s
        known = usage.page_faults is not None and used.page_faults is not None
        faults = (usage.page_faults or 0) - (used.page_faults or 0) if known else None
        # The sums decrease when a process ends that its parent does not wait for: what it used is then lost.
        whole = wall_s >= SHORTEST_INTERVAL_S and spent_s >= 0 and system_s >= 0 and (faults or 0) >= 0
        return {
            "cpu_utilization_percent": 100 * spent_s / wall_s if whole else None,
            "cpu_system_percent": 100 * system_s / wall_s if whole else None,
            "page_faults_per_s": faults / wall_s if whole and faults is not None else None,
        }

    def _other_utilisation(self, now: float, tree_percent: float | None) -> float | None:
        (before, busy_s_before), self._last_machine = self._last_machine, (now, _machine_busy_s())
        if tree_percent is None or now - before < SHORTEST_INTERVAL_S:
            return None
        percent = 100 * (self._last_machine[1] - busy_s_before) / (now - before)
        return max(0.0, percent - tree_percent)

    def _measure(self) -> _Usage:
        """What the tree uses.

        Raises:
            psutil.NoSuchProcess: the root has ended or is about to.
        """
        assert self._root is not None
        total = _of_process(self._root)
        if total.memory_bytes == 0:  # a zombie, or about to be one
            raise psutil.NoSuchProcess(self._root.pid)
        known, self._descendants = self._descendants, {}
        below = [pid for root in (self._root.pid, *self._others_pids) for pid in descendants(root)]
        for pid in (*self._others_pids, *below):
            try:
                process = known.get(pid) or psutil.Process(pid)
                usage = _of_process(process)
            except psutil.Error:
                continue
            self._descendants[pid] = process
            total = total.plus(usage)
        return total


def _machine_busy_s() -> float:
    """Processor seconds that all processes have used since the machine started."""
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system)


def _of_process(process: psutil.Process) -> _Usage:
    times = process.cpu_times()
    system_s = times.system + times.children_system
    return _Usage(
        process.memory_info().rss, times.user + times.children_user + system_s, system_s, _page_faults(process.pid)
    )


def _stat(pid: int) -> list[str]:
    """The fields of proc_pid_stat(5) from the third one on; raises an OSError without that file."""
    with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
        return file.read().decode(errors="replace").rpartition(")")[2].split()


def _page_faults(pid: int) -> int | None:
    """Minor and major ones, of the process and of children that it has waited for (fields 10 to 13)."""
    try:
        return sum(map(int, _stat(pid)[7:11]))
    except OSError:
        return None


def _started_s(pid: int) -> float:
    """When the process started, in seconds of CLOCK_BOOTTIME (field 22)."""
    return int(_stat(pid)[19]) / os.sysconf("SC_CLK_TCK")


def _throttle_queries(root: Path = Path("/")) -> dict[str, Callable[[], float | None]]:
    """Available counters of throttling (CPU quota, temperature), by the name of their series."""
    queries: dict[str, Callable[[], float | None]] = {}
    if files := cgroup.throttle_files(root):
        queries["cpu_quota_throttled_s"] = functools.partial(cgroup.throttled_s, files)
    # Only the first package: a large machine has hundreds of these files, one per thread.
    heat = root / "sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_count"
    if heat.exists():
        queries["cpu_thermal_throttles"] = functools.partial(_number_in, heat)
    return queries


def _number_in(path: Path) -> float | None:
    try:
        return float(path.read_text())
    except (OSError, ValueError):
        return None


def _gpu_queries(num_gpus: int, nvml: Any, environ: Mapping[str, str]) -> dict[str, Callable[[], float | None]]:
    """A query per figure, by the name of its series; empty without a driver."""
    try:
        handles = gpus.visible_handles(nvml, environ)[:num_gpus]
    except pynvml.NVMLError:
        return {}
    queries: dict[str, Callable[[], float | None]] = {}
    for index, handle in enumerate(handles):
        for figure, query in _FIGURES.items():
            queries[f"gpu_{index}_{figure}"] = functools.partial(query, nvml, handle)
    return queries


_FIGURES: dict[str, Callable[[Any, gpus.Handle], float]] = {
    "memory_mb": lambda nvml, handle: nvml.nvmlDeviceGetMemoryInfo(handle).used / MB,
    "utilization_percent": lambda nvml, handle: nvml.nvmlDeviceGetUtilizationRates(handle).gpu,
    "power_w": lambda nvml, handle: nvml.nvmlDeviceGetPowerUsage(handle) / 1000,
    "temperature_c": lambda nvml, handle: nvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU),
    "throttled": lambda nvml, handle: float(nvml.nvmlDeviceGetCurrentClocksEventReasons(handle) & SLOWED_DOWN != 0),
    "sm_clock_mhz": lambda nvml, handle: nvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM),
}
