"""`--price-per-hour`: what an hour of a device costs, for `best` and `report` without a project's params.yaml."""

import math
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from accelbench.commands.command import flag
from accelbench.errors import UserError, did_you_mean
from accelbench.schema.vocab import Device

if TYPE_CHECKING:
    from accelbench.judging.costs import Cost

PRICE = flag("--price-per-hour", metavar="2.5", help="an hour's price, or for each device: gpu=2.5,cpu=0.1")
MOST = 1e12  # of `Cost`


def costs(chosen: Namespace, project: Path | None) -> "dict[Device, Cost]":
    """The costs of the project, if there is one, with the prices that the flag gives. Raises UserError."""
    from accelbench.judging.costs import Cost
    from accelbench.settings import params

    kept, text = params.costs(project), chosen.price_per_hour
    given = {} if text is None else _prices(text)
    return kept | {device: replace(kept.get(device, Cost()), price_per_hour=price) for device, price in given.items()}


def _prices(text: str) -> dict[Device, float]:
    """Device -> its price; of a price without a device, every device. Raises UserError: it is of another form."""
    found = dict[Device, float]()
    for part in text.split(","):
        name, named, number = part.rpartition("=")
        if named and name not in list(Device):
            meant = did_you_mean(name, Device)
            raise UserError(f"--price-per-hour {text}: unknown device {name}.{meant} Choose from: {', '.join(Device)}.")
        try:
            price = float(number)
        except ValueError:
            price = math.nan
        if not 0 < price <= MOST or (not named and part != text):
            raise UserError(f"--price-per-hour {text}: should be a price above 0, such as 2.5, or gpu=2.5,cpu=0.1")
        found |= dict.fromkeys([Device(name)] if named else Device, price)
    return found
