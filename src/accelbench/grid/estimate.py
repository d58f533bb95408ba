"""How long cells will take, or that this is not known."""

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from accelbench.grid.evidence import Evidence, Limits
from accelbench.presentation import duration
from accelbench.schema.cell import Cell

# An estimate is at most this many times too long or too short.
FACTOR = 1.5


@dataclass(frozen=True)
class Length:
    """The limits of how long one or more cells will take."""

    shortest_s: float = 0.0
    longest_s: float = 0.0  # infinite if a cell's work was never measured
    num: int = 0  # of cells
    num_unknown: int = 0  # of those whose own length is not known
    num_new: int = 0  # of those whose work was never measured on this machine

    @property
    def estimate_s(self) -> float | None:
        """The middle of the limits, from which both are at most `FACTOR` away; None if they are further apart."""
        if self.longest_s > FACTOR**2 * self.shortest_s:
            return None
        return math.sqrt(self.shortest_s * self.longest_s)

    def __add__(self, other: "Length") -> "Length":
        return Length(
            self.shortest_s + other.shortest_s,
            self.longest_s + other.longest_s,
            self.num + other.num,
            self.num_unknown + other.num_unknown,
            self.num_new + other.num_new,
        )

    def __str__(self) -> str:
        """Such as `about 52 s`, `at least 40 s` or `unknown time`."""
        if self.estimate_s is not None:
            return f"about {_shown(self.estimate_s)}" if self.num else "0 s"
        return f"at least {_shown(self.shortest_s)}" if self.shortest_s >= 1.0 else "unknown time"

    @property
    def text(self) -> str:
        """As `str`, and how many cells are of unknown length, or why all are."""
        if self.estimate_s is not None:
            return str(self)
        if self.num_new == self.num_unknown == self.num:
            return f"{self} (nothing like {'it' if self.num == 1 else 'them'} was measured here yet)"
        return f"{self} ({self.num_unknown} cell{'s' * (self.num_unknown != 1)} of unknown length)"


def _shown(seconds: float) -> str:
    return duration(max(1.0, seconds))


def length_of(cell: Cell, evidence: Evidence, start_s: Limits = (0.0, 0.0)) -> Length:
    """How long `cell` takes, see `evidence`, after it has waited for `start_s`."""
    shortest_s, longest_s = (limit + start for limit, start in zip(evidence.limits_s(cell), start_s, strict=True))
    length = Length(shortest_s, longest_s, num=1, num_new=int(not evidence.has_same_work(cell)))
    return replace(length, num_unknown=int(length.estimate_s is None))


def lengths(cells: Iterable[Cell], evidence: Evidence, started: Collection[Cell] = ()) -> list[Length]:
    """How long each of `cells` takes, one after another.

    The first cell of a host waits for its start, and the first one of an exported network for the export, unless cells
    that need the same have `started`.
    """
    ready = {evidence.traits(cell).needs for cell in started}
    found = []
    for cell in cells:
        needs = evidence.traits(cell).needs
        found.append(length_of(cell, evidence, (0.0, 0.0) if needs in ready else evidence.start_s(cell)))
        ready.add(needs)
    return found


def total(cells: Iterable[Cell], evidence: Evidence, started: Collection[Cell] = ()) -> Length:
    """How long all `cells` take; see `lengths`."""
    return sum(lengths(cells, evidence, started), Length())
