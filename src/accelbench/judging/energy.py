"""The energy that a device used per sample, from the hardware's counters."""

from collections.abc import Mapping

from accelbench.schema.conditions import SystemSeries
from accelbench.schema.measurement import Measurement
from accelbench.schema.vocab import Device

# Counters are read two to ten times a second: over a shorter time, the moment of reading would decide the result.
SHORTEST_S = 1.0


def joules_per_sample(
    device: Device, measured: Measurement, system: SystemSeries, idle: Mapping[str, float]
) -> float | None:
    """Joules of the device per sample in the steady state, without its idle power.

    If whole epochs were run: of all epochs but the first, without the time between them.

    Args:
        device: whose energy.
        measured: has the times of the steady state and its number of samples.
        system: the counters' series.
        idle: watts when nothing runs, by series (`idle_w`).

    Returns:
        None if the device has no counter, if its idle power is unknown or above the power used, or if the counter's
        readings span less than a second of the steady state or of one of its epochs.
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
    """The spans of the steady state, in seconds since the machine started, and its number of samples."""
    if measured.steady_boot_s is not None and measured.num_steady_samples:
        return [measured.steady_boot_s], measured.num_steady_samples
    later = measured.epochs[1:]
    starts = [(epoch.began_boot_s, epoch.seconds) for epoch in later]
    spans = [(start, start + seconds) for start, seconds in starts if start is not None]
    return (spans if len(spans) == len(later) else []), sum(epoch.num_samples for epoch in later)


def _series(device: Device, num: int) -> list[str]:
    """The names of the energy counters' series of `num` devices, cumulative joules.

    A CPU's counter covers the processor packages (RAPL, without memory and mainboard), a GPU's the whole card (NVML).
    """
    if device == Device.gpu:
        return [f"gpu_{index}_energy_j" for index in range(num)]
    return ["cpu_energy_j"] if device in (Device.cpu, Device.xla_cpu) else []


def _power_w(system: SystemSeries, name: str, idle: Mapping[str, float], low: float, high: float) -> float | None:
    """Mean power above idle by one counter, between two times of its series; None if unknown."""
    values = zip(system.t_s, system.values.get(name, []), strict=False)
    read = [(t, v) for t, v in values if v is not None and low <= t <= high]
    if name not in idle or len(read) < 2 or read[-1][0] - read[0][0] < SHORTEST_S:
        return None
    power_w = (read[-1][1] - read[0][1]) / (read[-1][0] - read[0][0]) - idle[name]
    # Below idle: another process ran while the idle power was measured, so it is not known.
    return power_w if power_w > 0 else None
