"""selfcheck.json: what the verdicts of machines are worth, as `accelbench selfcheck` measured it."""

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from accelbench.errors import RefusedError
from accelbench.schema.ranges import AtLeastOne, Count, NotNegative, Number, Share
from accelbench.schema.serialize import digest, entries_of, load_if_fits, write_json

SELFCHECK = "selfcheck.json"


@dataclass(frozen=True, kw_only=True)
class Detectable:
    """The slow-down that `compare` finds in 80 % of all tries with so many processes a side."""

    num_processes: AtLeastOne
    slowdown: Share


@dataclass(frozen=True, kw_only=True)
class MachineError:
    """How far the two sides of a comparison of a cell with itself were apart."""

    num_rounds: Count  # of two processes each
    low: Number  # of the 95 % interval of the second side's speed over the first one's, less 1
    high: Number
    detectable: Annotated[list[Detectable], Meta(min_length=1)]  # for five processes a side and more


@dataclass(frozen=True, kw_only=True)
class SelfCheck:
    """What one machine's verdicts are worth."""

    measured_at: str  # ISO 8601, UTC
    took_s: NotNegative  # seconds
    cells: Annotated[dict[str, MachineError], Meta(min_length=1)]  # what each cell's rounds say, by the cell's name

    def detectable(self) -> dict[int, float]:
        """Processes a side -> the slow-down that is found in 80 % of all tries, in the cell where it is the largest."""
        largest: dict[int, float] = {}
        for cell in self.cells.values():
            for row in cell.detectable:
                largest[row.num_processes] = max(largest.get(row.num_processes, 0.0), row.slowdown)
        return dict(sorted(largest.items()))

    @property
    def sentence(self) -> str:
        """How far two settings have to be apart."""
        parts = ", ".join(f"{percent(slowdown)} with {num}" for num, slowdown in self.detectable().items())
        return f"On this CPU two settings have to differ by {parts} processes of each to be told apart 4 times in 5."


def percent(share: float) -> str:
    """Such as `4.2 %` or `12 %`, rounded up."""
    digits = 1 if share < 0.1 else 0
    steps = math.ceil(round(share * 100 * 10**digits, 6))  # 4.1 is no 4.1000000001, which it is in binary
    return f"{steps / 10**digits:.{digits}f} %"


def read_selfcheck(folder: Path, machine: Mapping[str, Any]) -> SelfCheck | None:
    """What `folder`/selfcheck.json says of a machine; None if it says nothing, or is not readable."""
    with suppress(RefusedError):
        return load_if_fits(SelfCheck, entries_of(folder / SELFCHECK).get(digest(machine)[:12]))
    return None


def write_selfcheck(folder: Path, machine: Mapping[str, Any], check: SelfCheck) -> None:
    """Writes what is known of a machine into `folder`/selfcheck.json; what is known of others stays.

    Raises RefusedError, OSError: the file can't be read or written.
    """
    write_json(folder / SELFCHECK, entries_of(folder / SELFCHECK) | {digest(machine)[:12]: check})
