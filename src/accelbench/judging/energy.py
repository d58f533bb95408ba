"""What a device has used of energy, from counters that the hardware keeps."""

from collections.abc import Mapping

from accelbench.schema.conditions import SystemSeries
from accelbench.schema.measurement import Measurement
from accelbench.schema.vocab import Device

# Counters are read ten times a second: over less than this, what they say is mostly when they were read.
SHORTEST_S = 1.0


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
