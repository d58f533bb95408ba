"""What a device costs and draws, as its user states it in params.yaml, and what follows for a sample."""

from collections.abc import Mapping
from dataclasses import dataclass

from accelbench.schema.record import Row
from accelbench.schema.vocab import SHARE_ONE_CPU, Device, Provenance

SECONDS_PER_HOUR = 3600


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Of one device.

    Attributes:
        price_per_hour: money, of whatever currency, for an hour of it.
        power_w: watts above idle when it computes, for where no counter tells.
    """

    price_per_hour: float | None = None
    power_w: float | None = None


def with_costs(row: Row, costs: Mapping[Device, Cost]) -> Row:
    """`row` with what a million samples cost, and with energy estimated where none was measured and power is stated.

    Costs are those of the device at work: what an hour costs while it waits is not in them.
    """
    rate, device = row["samples_per_s"], Device(str(row["device"]))
    cost, num = costs.get(device), 1 if device in SHARE_ONE_CPU else int(row["devices"] or 1)
    if cost is None or not isinstance(rate, float):
        return row
    priced: Row = {}
    if cost.price_per_hour is not None:
        priced["cost_per_million_samples"] = num * cost.price_per_hour / SECONDS_PER_HOUR / rate * 1e6
    if row["energy_j_per_sample"] is None and cost.power_w is not None:
        priced |= {"energy_j_per_sample": num * cost.power_w / rate, "energy_provenance": Provenance.estimated.value}
    return row | priced
