"""What samples cost: energy by the hardware's counters, money and power as the user states them in params.yaml."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from accelbench.schema.measurement import Measurement, SystemSeries
from accelbench.schema.record import Row
from accelbench.schema.vocab import SHARE_ONE_CPU, Device, Provenance

SECONDS_PER_HOUR = 3600
# Counters are read two to ten times a second: over a shorter time, the moment of reading would decide the result.
SHORTEST_S = 1.0
# Far beyond any figure of a device, and a cost per sample is still finite.
Figure = Annotated[float, Meta(ge=1e-12, le=1e12)]


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What one device costs."""

    price_per_hour: Figure | None = None  # in any currency
    power_w: Figure | None = None  # watts above idle while it computes, for devices without an energy counter


def with_costs(row: Row, costs: Mapping[Device, Cost]) -> Row:
    """`row` with the cost of a million samples while the device computes, and estimated energy if none was measured.

    Of requests too: their cost is that of the whole time, their energy that of the share in which it computes.
    """
    device = Device(str(row["device"]))
    if (cost := costs.get(device)) is None:
        return row
    num = 1 if device in SHARE_ONE_CPU else int(row["devices"] or 1)
    rates = {"sample": (row["samples_per_s"], 1.0), "request": (row["requests_per_s"], row["busy_share"])}
    priced: Row = {}
    for thing, (rate, busy) in rates.items():
        if not isinstance(rate, float) or not rate:
            continue
        if cost.price_per_hour is not None:
            priced[f"cost_per_million_{thing}s"] = num * cost.price_per_hour / SECONDS_PER_HOUR / rate * 1e6
        if row[f"energy_j_per_{thing}"] is None and cost.power_w is not None and isinstance(busy, float):
            priced[f"energy_j_per_{thing}"] = num * cost.power_w * busy / rate
            priced["energy_provenance"] = Provenance.estimated.value
    if cost.price_per_hour is not None and isinstance(reached_s := row.get("target_s"), float):
        priced["target_cost"] = num * cost.price_per_hour / SECONDS_PER_HOUR * reached_s
    return row | priced


def price_notes(rows: Iterable[Row], costs: Mapping[Device, Cost]) -> list[str]:
    """A sentence with the prices that the costs in `rows` are at; empty without such costs."""
    columns = ("cost_per_million_samples", "cost_per_million_requests")
    priced = sorted({str(row["device"]) for row in rows if any(row[column] is not None for column in columns)})
    texts = [f"{name} at {costs[Device(name)].price_per_hour:.12g} an hour" for name in priced]
    return [f"Cost of a million samples: {', '.join(texts)}, as the user states it."] if texts else []


def joules_per_sample(
    device: Device, measured: Measurement, system: SystemSeries, idle_w: Mapping[str, float]
) -> float | None:
    """Joules of the device per sample in the steady state, without its idle power, in watts by series; None if unknown.

    If whole epochs were run: of all epochs but the first, without the time between them. A CPU's counter covers the
    processor packages (RAPL, without memory and mainboard), a GPU's the whole card (NVML).
    """
    spans, num = _steady_spans(measured)
    joules = joules_within(device, measured.num_devices, system, idle_w, spans)
    return None if joules is None or not num else joules / num


def joules_within(
    device: Device,
    num_devices: int,
    system: SystemSeries,
    idle_w: Mapping[str, float],
    spans: Iterable[tuple[float, float]],
) -> float | None:
    """Joules above idle in these spans, in seconds since the machine started; None if unknown."""
    names = ["cpu_energy_j"] if device in (Device.cpu, Device.xla_cpu) else []
    if device == Device.gpu:
        names = [f"gpu_{index}_energy_j" for index in range(num_devices)]
    used = [_joules(system, name, idle_w, low, high) for low, high in spans for name in names]
    known = [joules for joules in used if joules is not None]
    return sum(known) if known and len(known) == len(used) else None


def _steady_spans(measured: Measurement) -> tuple[list[tuple[float, float]], int]:
    """The spans of the steady state, in seconds since the machine started, and its number of samples."""
    if measured.steady_boot_s is not None and measured.num_steady_samples:
        return [measured.steady_boot_s], measured.num_steady_samples
    later = measured.epochs[1:]
    begun = [(epoch.began_boot_s, epoch.seconds) for epoch in later]
    spans = [(start, start + seconds) for start, seconds in begun if start is not None]
    return (spans if len(spans) == len(later) else []), sum(epoch.num_samples for epoch in later)


def _joules(
    system: SystemSeries, name: str, idle_w: Mapping[str, float], low_boot_s: float, high_boot_s: float
) -> float | None:
    """Energy above idle by one counter; None if unknown."""
    counted_w = mean_w(system, name, (low_boot_s, high_boot_s))
    if counted_w is None or name not in idle_w:
        return None
    # Below idle: another process ran while the idle power was measured. The idle power is unknown.
    above_w = counted_w - idle_w[name]
    return above_w * (high_boot_s - low_boot_s) if above_w > 0 else None


def mean_w(system: SystemSeries, name: str, boot_s: tuple[float, float]) -> float | None:
    """Mean power by one energy counter from the begin to the end `boot_s`; None if unknown."""
    if system.started_boot_s is None:
        return None
    low, high = (moment - system.started_boot_s for moment in boot_s)
    values = zip(system.t_s, system.values.get(name, []), strict=False)
    read = [(t, joules) for t, joules in values if joules is not None and low <= t <= high]
    if len(read) < 2 or read[-1][0] - read[0][0] < SHORTEST_S:
        return None
    return (read[-1][1] - read[0][1]) / (read[-1][0] - read[0][0])
