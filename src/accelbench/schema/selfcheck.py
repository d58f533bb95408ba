"""Reads and writes selfcheck.json: the smallest difference that each machine can detect, by `accelbench selfcheck`."""

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
    """The smallest slow-down that `compare` detects in 80 % of comparisons with `num_processes` processes per side."""

    num_processes: AtLeastOne
    slowdown: Share


@dataclass(frozen=True, kw_only=True)
class MachineError:
    """The measured difference between two sides that run the same cell."""

    num_rounds: Count  # rounds of two processes
    low: Number  # lower end of the 95 % interval of (speed of the second side / speed of the first side) - 1
    high: Number  # upper end of that interval
    detectable: Annotated[list[Detectable], Meta(min_length=1)]  # for five and more processes on each side


@dataclass(frozen=True, kw_only=True)
class SelfCheck:
    """How small a difference one machine can detect."""

    measured_at: str  # UTC, ISO 8601
    took_s: NotNegative  # duration in seconds
    cells: Annotated[dict[str, MachineError], Meta(min_length=1)]  # name of a cell -> result of its rounds

    def detectable(self) -> dict[int, float]:
        """Maps the number of processes per side to the smallest slow-down that is detected in 80 % of all comparisons.

        If cells have different slow-downs, the largest one is returned.
        """
        largest: dict[int, float] = {}
        for cell in self.cells.values():
            for row in cell.detectable:
                largest[row.num_processes] = max(largest.get(row.num_processes, 0.0), row.slowdown)
        return dict(sorted(largest.items()))

    @property
    def sentence(self) -> str:
        """How far apart two settings must be."""
        parts = ", ".join(f"{percent(slowdown)} with {num} processes" for num, slowdown in self.detectable().items())
        return f"On this CPU, 4 of 5 comparisons detect that a setting is slower by {parts} of each setting."


def percent(share: float) -> str:
    """Formats a share as per cent, rounded up, such as `4.2 %` or `12 %`."""
    digits = 1 if share < 0.1 else 0
    steps = math.ceil(round(share * 100 * 10**digits, 6))  # rounded first: in binary, 4.1 may be 4.1000000001
    return f"{steps / 10**digits:.{digits}f} %"


def read_selfcheck(folder: Path, machine: Mapping[str, Any]) -> SelfCheck | None:
    """Reads the entry of a machine from `folder`/selfcheck.json. Returns None if there is no readable entry."""
    with suppress(RefusedError):
        return load_if_fits(SelfCheck, entries_of(folder / SELFCHECK).get(digest(machine)[:12]))
    return None


def write_selfcheck(folder: Path, machine: Mapping[str, Any], check: SelfCheck) -> None:
    """Writes the entry of a machine into `folder`/selfcheck.json. Entries of other machines stay.

    Raises RefusedError, OSError: the file can't be read or written.
    """
    write_json(folder / SELFCHECK, entries_of(folder / SELFCHECK) | {digest(machine)[:12]: check})
