"""The sampler: memory and processor time of a process tree, and the state of its GPUs as NVML reports it."""

import functools
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

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


class Sampler:
    """Samples a process and its descendants at each call of `sample`; the host calls it about ten times a second.

    `host_memory_mb` is the sum of the resident set sizes: pages shared between processes, such as a library's or a
    forked parent's, count once in each of them. `cpu_utilization_percent` is processor time over wall time, 100 for
    one busy core; it includes processes that have ended and been waited for. A process whose parent has ended no
    longer belongs to the tree. `other_cpu_utilization_percent` is the use by all other processes of the machine, the
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
            self._last = (time.monotonic(), self._measure()[1])
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
            memory_bytes, cpu_s = self._measure()
        except psutil.Error:
            self._root = None
            return False
        now = time.monotonic()
        self._memory_bytes.append(memory_bytes)
        sampled: dict[str, float | None] = {
            "host_memory_mb": memory_bytes / MB,
            "cpu_utilization_percent": (tree := self._utilisation(now, cpu_s)),
            "other_cpu_utilization_percent": self._other_utilisation(now, tree),
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

    def _utilisation(self, now: float, cpu_s: float) -> float | None:
        (before, cpu_s_before), self._last = self._last, (now, cpu_s)
        wall_s, spent_s = now - before, cpu_s - cpu_s_before
        # The sum decreases when a process ends that its parent does not wait for: its time is then lost.
        if wall_s < SHORTEST_INTERVAL_S or spent_s < 0:
            return None
        return 100 * spent_s / wall_s

    def _other_utilisation(self, now: float, tree_percent: float | None) -> float | None:
        (before, busy_s_before), self._last_machine = self._last_machine, (now, _machine_busy_s())
        if tree_percent is None or now - before < SHORTEST_INTERVAL_S:
            return None
        percent = 100 * (self._last_machine[1] - busy_s_before) / (now - before)
        return max(0.0, percent - tree_percent)

    def _measure(self) -> tuple[int, float]:
        """Resident bytes and processor seconds of the tree.

        Raises:
            psutil.NoSuchProcess: the root has ended or is about to.
        """
        assert self._root is not None
        memory_bytes, cpu_s = _of_process(self._root)
        if memory_bytes == 0:  # a zombie, or about to be one
            raise psutil.NoSuchProcess(self._root.pid)
        known, self._descendants = self._descendants, {}
        below = [pid for root in (self._root.pid, *self._others_pids) for pid in descendants(root)]
        for pid in (*self._others_pids, *below):
            try:
                process = known.get(pid) or psutil.Process(pid)
                process_bytes, process_cpu_s = _of_process(process)
            except psutil.Error:
                continue
            self._descendants[pid] = process
            memory_bytes, cpu_s = memory_bytes + process_bytes, cpu_s + process_cpu_s
        return memory_bytes, cpu_s


def _machine_busy_s() -> float:
    """Processor seconds that all processes have used since the machine started."""
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system)


def _of_process(process: psutil.Process) -> tuple[int, float]:
    """Resident bytes, and processor seconds including those of children that the process has waited for."""
    times = process.cpu_times()
    return process.memory_info().rss, times.user + times.system + times.children_user + times.children_system


def _started_s(pid: int) -> float:
    """When the process started, in seconds of CLOCK_BOOTTIME (proc_pid_stat(5), field 22)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[19]) / os.sysconf("SC_CLK_TCK")


def _throttle_queries(root: Path = Path("/")) -> dict[str, Callable[[], float | None]]:
    """Available counters of throttling (CPU quota, temperature), by the name of their series."""
    queries: dict[str, Callable[[], float | None]] = {}
    if cgroup.throttled_s(root) is not None:
        queries["cpu_quota_throttled_s"] = functools.partial(cgroup.throttled_s, root)
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
