"""Two sides of fresh processes -> their ratio, its interval, and how sure it is: the one place with its limits."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from accelbench.compare.record_sets import ComparedProcess
from accelbench.presentation import significant
from accelbench.schema.record import node_of
from accelbench.stats.bootstrap import CONFIDENCE, difference_interval
from accelbench.stats.order_statistics import median

MIN_PROCESSES = 5  # per side: with fewer, the spread between processes is not known well enough
MARGIN = 0.02
# Single processes have to differ by more than this to make a difference likely: fresh processes of one cell differ by a
# few percent, and on a busy machine by up to a fifth.
LIKELY_RATIO = 1.2
# A difference beyond this is no spread between processes. If the intervals do not overlap either, whatever else ran on
# the machine does not explain it.
APART_RATIO = 1.5
NOTE = (
    f'How sure: "sure" if {MIN_PROCESSES} or more fresh processes of each cell were interleaved, and the 95 % interval '
    f'of their ratio decides; "same" if it lies within {100 * MARGIN:g} % of 1. "Likely" if they were not, but one is '
    f"more than {LIKELY_RATIO:g} times as fast, and their intervals do not overlap; of cells without an interval, more "
    f'than {APART_RATIO:g} times. Else "can\'t tell", with the reason: accelbench compare --run may decide.'
)
BESIDE = "other programs used the CPU meanwhile"
# How the second side's speed compares with the first's.
Verdict = StrEnum("Verdict", {"same": "same", "faster": "faster", "slower": "slower", "cant_tell": "can't tell"})
# How sure a difference between two cells is; `same`: it is sure that there is hardly one.
Word = StrEnum("Word", {"sure": "sure", "same": "same", "likely": "likely", "cant_tell": "can't tell"})


@dataclass(frozen=True, kw_only=True)
class SpeedRatio:
    """The second side's speed over the first's.

    The ratio is of the geometric means of the processes' median samples/s, with the 95 % interval of that estimate;
    None with fewer than `MIN_PROCESSES` on a side.
    """

    num_first: int  # fresh processes measured
    num_second: int
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    interleaved: bool = True  # so that drift affected both alike; or the user wants a verdict anyway

    def verdict(self, margin: float = MARGIN) -> Verdict:
        """The verdict that the interval supports.

        `same` if neither side is faster by `margin` at any point of the interval (a test of equivalence: Schuirmann
        1987), even if it excludes 1; with 0, nothing is the same.
        """
        if self.low is None or self.high is None or not self.interleaved:
            return Verdict.cant_tell
        if max(self.high, 1 / self.low) < 1 + margin:  # the same, whichever side is named first
            return Verdict.same
        if self.low > 1:
            return Verdict.faster
        return Verdict.slower if self.high < 1 else Verdict.cant_tell

    def is_slower_by(self, share: float) -> bool:
        """Whether the whole interval of the ratio lies below `1 - share`."""
        return self.interleaved and self.high is not None and self.high < 1 - share

    def tells_slower_by(self, share: float) -> bool | None:
        """Whether the second side is slower by more than `share`; None: the interval lies on both sides of it."""
        if self.low is not None and self.low > 1 - share:
            return False
        return True if self.is_slower_by(share) else None


def compare_processes(
    first: Sequence[ComparedProcess],
    second: Sequence[ComparedProcess],
    confidence: float = CONFIDENCE,
    *,
    anyway: bool = False,
) -> SpeedRatio:
    """Compares the processes that stand; `anyway` gives a verdict even if they were not interleaved."""
    a, b = (np.array([math.log(median(each.rates)) for each in side if each.rates]) for side in (first, second))
    found = SpeedRatio(num_first=len(a), num_second=len(b), interleaved=anyway or are_interleaved(first, second))
    if min(len(a), len(b)) < MIN_PROCESSES:
        return found
    low, high = difference_interval(a, b, confidence)
    return replace(found, ratio=math.exp(b.mean() - a.mean()), low=math.exp(low), high=math.exp(high))


def are_interleaved(first: Sequence[ComparedProcess], second: Sequence[ComparedProcess]) -> bool:
    """Whether two sides alternate, on each node, at least as often as if each ran once per round."""
    # Else a difference of nodes would be taken for one of the sides.
    by_node: dict[str | None, list[tuple[str, bool]]] = {}
    for is_second, processes in ((False, first), (True, second)):
        for process in processes:
            by_node.setdefault(node_of(process.environment), []).append((process.started_at, is_second))
    orders = [[is_second for _, is_second in sorted(starts)] for starts in by_node.values()]
    num_changes = sum(before != after for order in orders for before, after in pairwise(order))
    return all(len(set(order)) == 2 for order in orders) and num_changes >= min(len(first), len(second))


def ran_beside_others(processes: Sequence[ComparedProcess]) -> bool:
    """Whether other programs used the CPU during at least half of these processes."""
    return 2 * sum(process.was_beside_others for process in processes) >= max(1, len(processes))


class Side(NamedTuple):
    """A cell that is compared."""

    processes: Sequence[ComparedProcess]  # that its speed is of
    speed: float  # its published samples/s, above 0
    low: float | None  # of the 95 % interval of the speed
    high: float | None


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What can be said of two cells: how many times as fast the first is as the second, and how sure that is.

    The ratio is of interleaved processes, with its 95 % interval, where there are enough; else of the two speeds.
    """

    ratio: float
    word: Word
    why: str = ""  # what speaks for or against a difference, besides the interval
    low: float | None = None
    high: float | None = None

    @property
    def reason(self) -> str:
        """Why it is the word: the interval of the ratio, or what speaks against it; may be empty."""
        if self.why or self.low is None or self.high is None:
            return self.why
        return f"{significant(self.low)} to {significant(self.high)} times"

    @property
    def is_interleaved(self) -> bool:
        """Whether the ratio is one of interleaved processes."""
        return self.low is not None


def judge(first: Side, second: Side) -> Judgement:
    """How many times as fast the first cell is as the second, and how sure that is."""
    beside = BESIDE if any(ran_beside_others(side.processes) for side in (first, second)) else ""
    found = compare_processes(second.processes, first.processes)
    if found.ratio is not None and found.interleaved:
        verdict = found.verdict()
        word = {Verdict.same: Word.same, Verdict.cant_tell: Word.cant_tell}.get(verdict, Word.sure)
        why = "" if word == Word.cant_tell else beside
        if why:
            word = Word.cant_tell
        return Judgement(ratio=found.ratio, word=word, why=why, low=found.low, high=found.high)
    why = _why_unlikely(first, second, beside)
    word = Word.cant_tell if why else Word.likely
    return Judgement(ratio=first.speed / second.speed, word=word, why=why)


def _why_unlikely(first: Side, second: Side, beside: str) -> str:
    """Why the speeds and the intervals make no difference likely, such as what ran `beside`; empty if they do."""
    ratio = max(first.speed / second.speed, second.speed / first.speed)
    is_apart = ratio > APART_RATIO
    if first.low is None or first.high is None or second.low is None or second.high is None:
        return beside if is_apart else "too few blocks for an interval"
    if first.low <= second.high and second.low <= first.high:
        return "the intervals overlap"
    if ratio <= LIKELY_RATIO:
        return "within the usual spread between runs"
    return "" if is_apart else beside
