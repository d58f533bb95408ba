"""What a device has used of energy, from counters that the hardware keeps."""

import functools
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pynvml

from accelbench.devices import nvml as gpus
from accelbench.measurement import Measurement
from accelbench.record import SystemSeries
from accelbench.vocab import Device

# Counters are read ten times a second: over less than this, what they say is mostly when they were read.
SHORTEST_S = 1.0
IDLE_S = 1.0

Counters = dict[str, Callable[[], float | None]]


class Rapl:
    """The energy of all processor packages, joules since it was made; the kernel's counters wrap, this does not.

    Intel's and AMD's running average power limit, as Linux shows it (Documentation/power/powercap/powercap.rst). Only
    root may read it on most machines.
    """

    def __init__(self, packages: list[Path]) -> None:
        self._packages = packages
        self._ranges = [int((folder / "max_energy_range_uj").read_text()) for folder in packages]
        self._last = self._read()
        self._total = 0

    def __call__(self) -> float | None:
        """Joules so far; None where it can't be read this time."""
        try:
            now = self._read()
        except (OSError, ValueError):
            return None
        for before, after, most in zip(self._last, now, self._ranges, strict=True):
            self._total += after - before + (most if after < before else 0)
        self._last = now
        return self._total / 1e6

    def _read(self) -> list[int]:
        return [int((folder / "energy_uj").read_text()) for folder in self._packages]


def find_rapl(root: Path = Path("/")) -> Rapl | None:
    """The processor's counter; None where there is none, or none that this user may read."""
    folder = root / "sys/class/powercap"
    # `intel-rapl:0` is a package, `intel-rapl:0:0` a part of one, counted in it; AMD's go by the same name.
    packages = [path for path in sorted(folder.glob("intel-rapl:*")) if path.name.count(":") == 1]
    try:
        chosen = [path for path in packages if (path / "name").read_text().startswith("package")]
        return Rapl(chosen) if chosen else None
    except (OSError, ValueError):
        return None


def counters(
    num_gpus: int, nvml: Any = pynvml, environ: Mapping[str, str] = os.environ, root: Path = Path("/")
) -> Counters:
    """The counters that there are, by the name of their series; each gives joules so far."""
    found: Counters = {}
    rapl = find_rapl(root)
    if rapl is not None:
        found["cpu_energy_j"] = rapl
    if num_gpus:
        try:
            handles = gpus.visible_handles(nvml, environ)[:num_gpus]
        except pynvml.NVMLError:
            handles = []
        for index, handle in enumerate(handles):
            query = functools.partial(nvml.nvmlDeviceGetTotalEnergyConsumption, handle)
            if gpus.ask(query) is not None:  # before Volta there is none
                found[f"gpu_{index}_energy_j"] = functools.partial(_joules, query)
    return found


def _joules(query: Callable[[], int]) -> float | None:
    millijoules = gpus.ask(query)
    return None if millijoules is None else millijoules / 1000


def idle_w(found: Counters, seconds: float = IDLE_S, sleep: Callable[[float], None] = time.sleep) -> dict[str, float]:
    """Watts of each counter's device while this process, and nothing else that it knows of, sleeps."""
    if not found:
        return {}
    start, before = time.monotonic(), {name: read() for name, read in found.items()}
    sleep(seconds)
    after, took = {name: read() for name, read in found.items()}, time.monotonic() - start
    return {
        name: (end - begin) / took
        for name, begin in before.items()
        if begin is not None and (end := after[name]) is not None
    }


def joules_per_sample(
    device: Device, measured: Measurement, system: SystemSeries, idle: Mapping[str, float]
) -> float | None:
    """Energy of the device for one sample in the steady state, what it uses idle subtracted.

    Of whole epochs it is what all but the first used, without what came between them.

    None where the device has no counter, its idle power is unknown or no less than what was used, or the counter was
    read within less than a second of the steady state, or of one of its epochs.

    Args:
        device: whose energy.
        measured: says when the steady state was and how many samples it computed.
        system: the counters' series.
        idle: watts when nothing runs, by series (`idle_w`).
    """
    spans, num = _steady_spans(measured)
    names = _series(device, measured.num_devices)
    if system.started_boot_s is None or not (spans and num and names):
        return None
    total_j = 0.0
    for low, high in spans:
        for name in names:
            power_w = _power_w(system, name, idle, low - system.started_boot_s, high - system.started_boot_s)
            if power_w is None:
                return None
            total_j += power_w * (high - low)
    return total_j / num


def _steady_spans(measured: Measurement) -> tuple[list[tuple[float, float]], int]:
    """When samples of the steady state were computed, in seconds since the machine started, and how many they were."""
    if measured.steady_boot_s is not None and measured.num_steady_samples:
        return [measured.steady_boot_s], measured.num_steady_samples
    later = measured.epochs[1:]
    begins = [(epoch.began_boot_s, epoch.seconds) for epoch in later]
    spans = [(began, began + seconds) for began, seconds in begins if began is not None]
    return (spans if len(spans) == len(later) else []), sum(epoch.num_samples for epoch in later)


def _series(device: Device, num: int) -> list[str]:
    """The series of the counters of `num` devices, joules so far.

    They are the processor packages' own (RAPL; memory and mainboard are not in it), or of whole GPUs (NVML).
    """
    if device == Device.gpu:
        return [f"gpu_{index}_energy_j" for index in range(num)]
    return ["cpu_energy_j"] if device in (Device.cpu, Device.xla_cpu) else []


def _power_w(system: SystemSeries, name: str, idle: Mapping[str, float], low: float, high: float) -> float | None:
    """Mean power by one counter between two times of its series, less what the device uses idle."""
    values = zip(system.t_s, system.values.get(name, []), strict=False)
    read = [(t, v) for t, v in values if v is not None and low <= t <= high]
    if name not in idle or len(read) < 2 or read[-1][0] - read[0][0] < SHORTEST_S:
        return None
    power_w = (read[-1][1] - read[0][1]) / (read[-1][0] - read[0][0]) - idle[name]
    # Less than when nothing ran: something else ran then, and the idle power is not known after all.
    return power_w if power_w > 0 else None
