"""Computes the cost of samples. Energy is read from the hardware's counters. Prices and power are in params.yaml."""

import math
from collections.abc import Iterable, Mapping
from typing import Annotated

from msgspec import Meta, Struct

from accelbench.schema.cell import SHARE_ONE_CPU, Device, Provenance
from accelbench.schema.measurement import Interval, Measurement, SystemSeries
from accelbench.schema.record import Record, Row

SECONDS_PER_HOUR = 3600
# Counters are read two to ten times a second. In a shorter interval, the moment of a reading would decide the result.
SHORTEST_S = 1.0
# The bounds are far beyond any device's figure, and a cost per sample is still finite.
Figure = Annotated[float, Meta(ge=1e-12, le=1e12)]


class Cost(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The price and the power of one device."""

    price_per_hour: Figure | None = None  # in any currency
    power_w: Figure | None = None  # watts above idle while it computes; for devices without an energy counter


def with_costs(row: Row, costs: Mapping[Device, Cost]) -> Row:
    """Returns `row` with the cost of a million samples or requests. Estimates the energy if it was not measured.

    The cost of a sample is the price of the time in which the device computes it. The cost of a request also includes
    the time in which the device waits for requests. The estimated energy of a request does not include this time.
    """
    device = Device(str(row["device"]))
    if (cost := costs.get(device)) is None:
        return row
    num = 1 if device in SHARE_ONE_CPU else row["devices"] or 1
    priced = dict(row)
    for thing, rate, busy in (
        ("sample", row["samples_per_s"], 1.0),
        ("request", row["requests_per_s"], row["busy_share"]),
    ):
        if rate and cost.price_per_hour is not None:
            priced[f"cost_per_million_{thing}s"] = num * cost.price_per_hour / SECONDS_PER_HOUR / rate * 1e6
        if rate and cost.power_w is not None and busy is not None and row[f"energy_j_per_{thing}"] is None:
            priced[f"energy_j_per_{thing}"] = num * cost.power_w * busy / rate
            priced["energy_provenance"] = Provenance.estimated.value
    reached_s = row.get("target_s")
    if cost.price_per_hour is not None and reached_s is not None:
        priced["target_cost"] = num * cost.price_per_hour / SECONDS_PER_HOUR * reached_s
    return priced


def price_notes(rows: Iterable[Row], costs: Mapping[Device, Cost]) -> list[str]:
    """Returns a list of one sentence: the prices behind the costs in `rows`. The list is empty if no row has costs."""
    columns = ("cost_per_million_samples", "cost_per_million_requests")
    priced = sorted(
        {str(row["device"]) for row in rows if any(row[column] is not None for column in columns)}
    )
    texts = [f"{name} at {costs[Device(name)].price_per_hour:.12g} an hour" for name in priced]
    return [f"Costs are computed from these prices: {', '.join(texts)} (set by the user)."] if texts else []


def joules_per_sample(record: Record, measured: Measurement) -> float | None:
    """Returns the device's joules per sample in the steady state, minus its idle power. Returns None if unknown.

    If whole epochs ran, the steady state is all epochs except the first, without the pauses between epochs. A CPU's
    counter (RAPL) measures the processor packages, but neither the memory nor the mainboard. A GPU's counter (NVML)
    measures the whole card.
    """
    if measured.steady_boot_s and measured.num_steady_samples:
        spans = [measured.steady_boot_s]
        num = measured.num_steady_samples
    else:
        epochs = measured.epochs[1:]
        # An unknown begin becomes 0, when no power was sampled, so the energy is unknown, too.
        begins = [epoch.began_boot_s or 0.0 for epoch in epochs]
        spans = [(begin, begin + epoch.seconds) for begin, epoch in zip(begins, epochs, strict=True)]
        num = sum(epoch.num_samples for epoch in epochs)
    joules = joules_within(record, spans)
    return None if joules is None else joules / num


def joules_within(record: Record, spans: Iterable[Interval]) -> float | None:
    """Returns the joules used in all `spans` together, minus the idle power. Returns None if unknown."""
    device, system = record.cell.device, record.system
    idle_w = record.environment.get("idle_w", {})  # name of an energy series -> watts of the idle device
    names = ["cpu_energy_j"] if device in SHARE_ONE_CPU else []
    if device == Device.gpu:
        names = [f"gpu_{index}_energy_j" for index in range(record.cell.devices)]
    joules = []
    for span in spans:
        for name in names:
            used_w = mean_w(system, name, span) if system else None
            unused_w = idle_w.get(name, math.inf)
            # A power below idle: another process ran while the idle power was measured, so the power is unknown.
            if used_w is None or used_w <= unused_w:
                return None
            joules.append((used_w - unused_w) * (span[1] - span[0]))
    return sum(joules) if joules else None


def mean_w(system: SystemSeries, name: str, boot_s: Interval) -> float | None:
    """Returns the mean power in watts in the interval `boot_s`, from an energy counter. Returns None if unknown."""
    if system.started_boot_s is None:
        return None
    low, high = (moment - system.started_boot_s for moment in boot_s)
    values = zip(system.t_s, system.values.get(name, []), strict=False)
    read = [(t, joules) for t, joules in values if joules is not None and low <= t <= high]
    if len(read) < 2 or read[-1][0] - read[0][0] < SHORTEST_S:
        return None
    return (read[-1][1] - read[0][1]) / (read[-1][0] - read[0][0])
