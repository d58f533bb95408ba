"""How sure it is that one cell is faster than another: sure, likely or can't tell."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from accelbench.compare.pairs import Pair
from accelbench.compare.record_sets import Process
from accelbench.compare.verdict import MIN_PROCESSES, Comparison, Verdict
from accelbench.judging.disturbed import was_beside_others
from accelbench.presentation import significant
from accelbench.schema.record import Record, Row, number_of

# Single processes have to differ by more than this to make a difference likely: fresh processes of one cell differ by a
# few percent, and on a busy machine by up to a fifth.
LIKELY_RATIO = 1.2
NEAR = 0.5  # a speed above this share of the fastest one is so many per cent slower; others take so many times as long
NOTE = (
    f'How sure: "sure" if {MIN_PROCESSES} or more fresh processes of each cell were interleaved, and the 95 % interval '
    'of their difference decides. "Likely" if they were not, but their intervals do not overlap, and the speeds are '
    f'more than {100 * (LIKELY_RATIO - 1):.0f} % apart. Else "can\'t tell", with the reason: accelbench '
    "compare --run may decide."
)


class Sureness(StrEnum):
    """How sure a difference between two cells is."""

    sure = "sure"
    likely = "likely"
    cant_tell = "can't tell"


class Measured(Protocol):
    """A measured cell: its record, and its row of `cells.csv`."""

    @property
    def record(self) -> Record | None:
        """None if it has not run."""

    @property
    def row(self) -> Row:
        """See `judging.row.summarise`."""


@dataclass(frozen=True)
class Confidence:
    """What can be said of the difference between two cells' speeds.

    Attributes:
        detail: the 95 % interval of the difference, or why nothing can be said; may be empty.
        verdict: of the second cell against the first; None unless it is sure.
        ratio: of their speeds, second over first, from processes in turns; None if they did not run in turns.
    """

    sureness: Sureness
    detail: str = ""
    verdict: Verdict | None = None
    ratio: float | None = None

    def __str__(self) -> str:
        return f"{self.sureness}: {self.detail}" if self.detail else self.sureness.value


def confidence(first: Sequence[Measured], second: Sequence[Measured]) -> Confidence:
    """How sure the difference between two cells' speeds is.

    Args:
        first: the ok repeats of one cell.
        second: the ok repeats of the cell that it is compared with.
    """
    found = compared(first, second)
    disturbed = Confidence(Sureness.cant_tell, "other programs used the CPU meanwhile")
    if found is None:
        by_intervals = _by_intervals(first[0], second[0])
        is_likely = by_intervals.sureness == Sureness.likely
        return disturbed if is_likely and _are_disturbed(first, second) else by_intervals
    assert found.low is not None
    assert found.high is not None
    low, high = (f"{100 * (ratio - 1):+.3g} %" for ratio in (found.low, found.high))
    verdict = found.verdict()
    if verdict == Verdict.cant_tell:
        return Confidence(Sureness.cant_tell, f"{low} to {high}", ratio=found.ratio)
    if _are_disturbed(first, second):
        return disturbed
    return Confidence(Sureness.sure, f"{verdict}, {low} to {high}", verdict, found.ratio)


def against_fastest(other: Sequence[Measured], fastest: Sequence[Measured]) -> Confidence:
    """How sure it is that the cell that measured fastest is faster than another one; arguments as of `confidence`."""
    found = confidence(other, fastest)
    if found.verdict == Verdict.slower:  # single processes made it the fastest
        return Confidence(Sureness.cant_tell, "processes in turns say the opposite", ratio=found.ratio)
    slower, faster = (number_of(side[0].row, "samples_per_s") or 0.0 for side in (other, fastest))
    if found.sureness == Sureness.likely and slower > faster:
        return Confidence(Sureness.cant_tell, "other processes of the two say the opposite")
    return found


def behind(found: Confidence, share: float | None) -> str:
    """How far a cell is behind the fastest: `21 % slower`, or `4.2 times as long`.

    Args:
        found: as `against_fastest` returns it.
        share: the cell's speed over the fastest one's, in single processes; None if unknown.
    """
    if found.verdict is not None and found.ratio:  # else processes in turns may even say the opposite
        share = 1 / found.ratio
    if not share:
        return "slower"
    if share <= NEAR:
        return f"{significant(1 / share, 2)} times as long"
    percent = 100 * (1 - share)
    return f"{'<0.1' if percent < 0.1 else significant(percent, 2)} % slower"


def verdict_text(found: Confidence, share: float | None) -> str:
    """Such as `21 % slower, sure`; arguments as of `behind`."""
    return "as fast, sure" if found.verdict == Verdict.same else f"{behind(found, share)}, {found.sureness}"


def compared(first: Sequence[Measured], second: Sequence[Measured]) -> Comparison | None:
    """The comparison of two cells' processes, with an interval; None if they are too few, or did not run in turns.

    Args:
        first: the ok repeats of one cell.
        second: the ok repeats of the cell that it is compared with.
    """
    repeats = [[Process.of(reported.record) for reported in cell if reported.record] for cell in (first, second)]
    found = Pair(first=repeats[0], second=repeats[1]).compare(anyway=False)
    return found if found.low is not None and found.interleaved else None


def _by_intervals(first: Measured, second: Measured) -> Confidence:
    """What the speeds and the intervals within one process each say."""
    low, high = (number_of(first.row, f"samples_per_s_{end}") for end in ("low", "high"))
    second_low, second_high = (number_of(second.row, f"samples_per_s_{end}") for end in ("low", "high"))
    if low is None or high is None or second_low is None or second_high is None:
        return Confidence(Sureness.cant_tell, "too few blocks for an interval")
    if low <= second_high and second_low <= high:
        return Confidence(Sureness.cant_tell, "the intervals overlap")
    one, other = (number_of(each.row, "samples_per_s") for each in (first, second))
    if not one or not other or max(one / other, other / one) <= LIKELY_RATIO:
        return Confidence(Sureness.cant_tell, "two processes of one setting may differ as much")
    return Confidence(Sureness.likely)


def _are_disturbed(*sides: Sequence[Measured]) -> bool:
    """Whether other programs used the CPU during at least half of a side's repeats."""
    disturbed = [[was_beside_others(reported.record) for reported in side if reported.record] for side in sides]
    return any(2 * sum(found) >= max(1, len(found)) for found in disturbed)
