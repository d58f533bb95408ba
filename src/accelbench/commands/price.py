"""`--price-per-hour`: what an hour of a device costs, for `best` and `report` without a project's params.yaml."""

import re
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from accelbench.commands.command import flag
from accelbench.errors import UnknownChoiceError, UserError
from accelbench.schema.vocab import Device

if TYPE_CHECKING:
    from accelbench.judging.costs import Cost

PRICE = flag("--price-per-hour", metavar="2.5", help="an hour's price, or for each device: gpu=2.5,cpu=0.1")
FIGURE = re.compile(r"\d{1,12}|\d{0,12}\.\d{1,12}")


def costs(chosen: Namespace, project: Path | None) -> "dict[Device, Cost]":
    """The costs of the project, if there is one, with the prices that the flag gives. Raises UserError."""
    from accelbench.judging.costs import Cost
    from accelbench.settings import params

    found, text = params.costs(project), chosen.price_per_hour
    for part in [] if text is None else text.split(","):
        name, named, number = part.rpartition("=")
        if named and name not in list(Device):
            raise UnknownChoiceError("--price-per-hour", name, Device)
        if not (FIGURE.fullmatch(number) and float(number)) or (not named and part != text):
            raise UserError(f"--price-per-hour {text}: should be a price above 0, such as 2.5, or gpu=2.5,cpu=0.1")
        for device in [Device(name)] if named else Device:
            found[device] = replace(found.get(device, Cost()), price_per_hour=float(number))
    return found
