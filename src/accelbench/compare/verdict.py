"""The speeds of two samples of processes -> their ratio, its interval, and the verdict."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from accelbench.stats.bootstrap import difference_interval
from accelbench.stats.order_statistics import median

MIN_PROCESSES = 5  # per side: with fewer, the spread between processes is not known well enough
MARGIN = 0.02


class Verdict(StrEnum):
    """How the second side's speed compares with the first's."""

    same = "same"
    faster = "faster"
    slower = "slower"
    cant_tell = "can't tell"


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The second side's speed over the first's.

    Attributes:
        num_first, num_second: fresh processes measured on each side.
        ratio: geometric mean of the processes' median samples/s, second over first; above 1, the second is faster.
            None with fewer than `MIN_PROCESSES` on a side.
        low, high: bounds of the 95 % interval of the ratio; None if the ratio is None.
        interleaved: whether a verdict may be given: A and B were interleaved, so that drift affected both
            alike, or the user wants a verdict anyway.
    """

    num_first: int
    num_second: int
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    interleaved: bool = True

    def verdict(self, margin: float = MARGIN) -> Verdict:
        """The verdict that the interval supports.

        Args:
            margin: `same` if neither side is faster by as much at any point of the interval (a test of equivalence:
                Schuirmann 1987), even if it excludes 1; with 0, nothing is the same.
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


def compare(first: Sequence[Sequence[float]], second: Sequence[Sequence[float]]) -> Comparison:
    """Compares two samples of fresh processes.

    Args:
        first: for each process, the samples/s of its blocks, at least one.
        second: the same.
    """
    if min(len(first), len(second)) < MIN_PROCESSES:
        return Comparison(num_first=len(first), num_second=len(second))
    a, b = (np.array([math.log(median(blocks)) for blocks in processes]) for processes in (first, second))
    low, high = difference_interval(a, b)
    return Comparison(
        num_first=len(first),
        num_second=len(second),
        ratio=math.exp(b.mean() - a.mean()),
        low=math.exp(low),
        high=math.exp(high),
    )
