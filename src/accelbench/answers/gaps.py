"""The ratio of two cells' speeds, and how sure it is."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from accelbench.answers.cells import MeasuredCell
from accelbench.answers.sureness import APART_RATIO, LIKELY_RATIO, Verdict, compare_processes, ran_beside_others
from accelbench.judging.row import warnings_of
from accelbench.presentation import significant

BESIDE = "other programs used the CPU meanwhile"
# How sure a difference between two cells is. `same`: it is sure that there is no relevant difference.
Word = StrEnum("Word", {"sure": "sure", "same": "same", "likely": "likely", "cant_tell": "can't tell"})


@dataclass(frozen=True, kw_only=True)
class Gap:
    """The first cell's speed divided by the second cell's speed, and how sure this ratio is.

    With enough interleaved processes, the ratio is computed from these and has a 95 % interval. Otherwise, it is
    `speed of the first cell / speed of the second cell`, without an interval.
    """

    first: MeasuredCell
    second: MeasuredCell
    ratio: float
    word: Word
    why: str = ""  # reason besides the interval
    low: float | None = None
    high: float | None = None

    @property
    def text(self) -> str:
        """The ratio in words, such as `1.31 times as fast`."""
        return f"{significant(self.ratio)} times as fast"

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The 95 % interval of the ratio.

        If the ratio has no interval of its own, it is computed from the intervals of both speeds. None if one of them
        is unknown.
        """
        if self.low is not None and self.high is not None:
            return self.low, self.high
        if not (self.first.low and self.first.high and self.second.low and self.second.high):
            return None
        return self.first.low / self.second.high, self.first.high / self.second.low

    @property
    def how_sure(self) -> str:
        """How sure the ratio is, and why: what makes it doubtful, or else its interval."""
        if self.why or self.low is None or self.high is None:
            return f"{self.word}: {self.why}" if self.why else self.word.value
        return f"{self.word}: {significant(self.low)} to {significant(self.high)} times"

    @property
    def is_interleaved(self) -> bool:
        """Whether the ratio is from interleaved processes."""
        return self.low is not None

    @property
    def is_told(self) -> bool:
        """Is true if one of the cells is surely or likely faster."""
        return self.word in (Word.sure, Word.likely)

    @property
    def is_doubtful(self) -> bool:
        """Whether a number of either cell is in doubt."""
        return any(warnings_of(cell.row) for cell in (self.first, self.second))


def gap(first: MeasuredCell, second: MeasuredCell) -> Gap:
    """Divides the speed of `first` by the speed of `second`. Both cells must have a speed.

    If the two cells are swapped, the ratio becomes its reciprocal, and is equally sure.
    """
    return Gap(first=first, second=second, **_judged(first, second))


def _judged(first: MeasuredCell, second: MeasuredCell) -> dict[str, Any]:
    """Divides the first cell's speed by the second cell's speed, and decides how sure this ratio is."""
    sides = [cell.counted for cell in (first, second)]
    beside = BESIDE if any(map(ran_beside_others, sides)) else ""
    interleaved = compare_processes(sides[1], sides[0])
    if interleaved.ratio is not None and interleaved.interleaved:
        word = {Verdict.same: Word.same, Verdict.cant_tell: Word.cant_tell}.get(interleaved.verdict(), Word.sure)
        why = "" if word == Word.cant_tell else beside
        word = Word.cant_tell if why else word
        return {"ratio": interleaved.ratio, "word": word, "why": why, "low": interleaved.low, "high": interleaved.high}
    assert first.speed
    assert second.speed
    ratio = first.speed / second.speed
    why = _why_unlikely(first, second, max(ratio, 1 / ratio), beside)
    return {"ratio": ratio, "word": Word.cant_tell if why else Word.likely, "why": why}


def _why_unlikely(first: MeasuredCell, second: MeasuredCell, ratio: float, beside: str) -> str:
    """Returns why a difference is not likely. Empty if it is likely.

    `beside` says that other programs used the CPU. It is empty if none did.
    """
    is_apart = ratio > APART_RATIO
    if first.low is None or first.high is None or second.low is None or second.high is None:
        return beside if is_apart else "too few blocks for an interval"
    if first.low <= second.high and second.low <= first.high:
        return "the intervals overlap"
    if ratio <= LIKELY_RATIO:
        return "within the usual spread between runs"
    return "" if is_apart else beside
