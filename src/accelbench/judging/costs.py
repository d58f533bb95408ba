"""What samples cost, from the prices and powers of devices that the user states in params.yaml."""

from collections.abc import Mapping
from dataclasses import dataclass

from accelbench.schema.record import Row
from accelbench.schema.vocab import SHARE_ONE_CPU, Device, Provenance

SECONDS_PER_HOUR = 3600


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What one device costs.

    Attributes:
        price_per_hour: in any currency.
        power_w: watts above idle while it computes, for devices without an energy counter.
    """

    price_per_hour: float | None = None
    power_w: float | None = None


def with_costs(row: Row, costs: Mapping[Device, Cost]) -> Row:
    """`row` with the cost of a million samples, and with estimated energy if it was not measured.

    The cost covers the time in which the device computes, not the time in which it waits.
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
