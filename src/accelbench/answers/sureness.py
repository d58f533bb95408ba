"""Computes the ratio of two sides' speeds, and its interval. All limits for how sure a ratio is are here."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from statistics import fmean

from accelbench.answers.cells import MIN_PROCESSES, Process
from accelbench.schema.record import node_of
from accelbench.stats.intervals import mean_difference_interval
from accelbench.stats.order_statistics import median

MARGIN = 0.02
CONFIDENCE = 0.95
# A difference of single processes is likely only if their ratio is larger. Fresh processes of one cell differ by a few
# percent, and on a busy machine by up to a fifth.
LIKELY_RATIO = 1.2
# The spread between processes does not explain a larger ratio. If the intervals do not overlap either, other programs
# on the machine do not explain it.
APART_RATIO = 1.5
# The second side's speed, compared with the first side's.
Verdict = StrEnum(
    "Verdict", {"same": "same", "faster": "faster", "slower": "slower", "cant_tell": "can't tell"}
)


@dataclass(frozen=True, kw_only=True)
class SpeedRatio:
    """The second side's speed divided by the first side's speed.

    The speed of a side is the geometric mean of the speeds of its processes. The speed of a process is its median
    samples/s. `low` and `high` are the ends of the ratio's 95 % interval. `ratio`, `low` and `high` are None if a side
    has fewer than `MIN_PROCESSES` processes.
    """

    num_first: int  # fresh processes that were measured
    num_second: int
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    # Whether drift affected both sides equally, or the user wants a verdict in any case.
    interleaved: bool = True

    def verdict(self, margin: float = MARGIN) -> Verdict:
        """Returns the verdict that follows from the interval.

        The verdict is `same` if the whole interval lies within `margin` of 1, even if it does not contain 1. This is a
        test of equivalence (Schuirmann 1987). If `margin` is 0, the verdict is never `same`.
        """
        if self.low is None or self.high is None or not self.interleaved:
            return Verdict.cant_tell
        if max(self.high, 1 / self.low) < 1 + margin:  # symmetric: it does not matter which side is first
            return Verdict.same
        if self.low > 1:
            return Verdict.faster
        return Verdict.slower if self.high < 1 else Verdict.cant_tell

    def is_slower_by(self, share: float) -> bool:
        """Is true if the whole interval of the ratio lies below `1 - share`."""
        return self.interleaved and self.high is not None and self.high < 1 - share

    def tells_slower_by(self, share: float) -> bool | None:
        """Is true if the second side is slower by more than `share`. None if the interval contains `1 - share`."""
        if self.low is not None and self.low > 1 - share:
            return False
        return True if self.is_slower_by(share) else None


def speed_ratio(
    first: Sequence[float],
    second: Sequence[float],
    confidence: float = CONFIDENCE,
    *,
    interleaved: bool = True,
) -> SpeedRatio:
    """Compares the speeds of processes."""
    ratio = SpeedRatio(num_first=len(first), num_second=len(second), interleaved=interleaved)
    if min(len(first), len(second)) < MIN_PROCESSES:
        return ratio
    a, b = (list(map(math.log, side)) for side in (first, second))
    low, high = mean_difference_interval(b, a, confidence)
    return replace(ratio, ratio=math.exp(fmean(b) - fmean(a)), low=math.exp(low), high=math.exp(high))


def compare_processes(
    first: Sequence[Process],
    second: Sequence[Process],
    confidence: float = CONFIDENCE,
    *,
    anyway: bool = False,
) -> SpeedRatio:
    """Compares all processes with a known speed. If `anyway` is true, a verdict needs no interleaved processes."""
    a, b = ([median(process.rates) for process in side if process.rates] for side in (first, second))
    return speed_ratio(a, b, confidence, interleaved=anyway or are_interleaved(first, second))


def are_interleaved(first: Sequence[Process], second: Sequence[Process]) -> bool:
    """Is true if processes of the two sides alternated, and if each node ran processes of both sides.

    On each node, accelbench counts how often a process of one side follows a process of the other side in time. The
    sum of these counts must be at least the number of processes of the smaller side.
    """
    # If a node had only one side, a difference between nodes would look like one between the sides.
    by_node: dict[str | None, list[tuple[str, bool]]] = {}
    for is_second, processes in ((False, first), (True, second)):
        for process in processes:
            by_node.setdefault(node_of(process.environment), []).append((process.started_at, is_second))
    orders = [[is_second for _, is_second in sorted(starts)] for starts in by_node.values()]
    num_changes = sum(before != after for order in orders for before, after in pairwise(order))
    return all(len(set(order)) == 2 for order in orders) and num_changes >= min(len(first), len(second))


def ran_beside_others(processes: Sequence[Process]) -> bool:
    """Is true if other programs used the CPU during at least half of these processes."""
    return 2 * sum(process.was_beside_others for process in processes) >= max(1, len(processes))
