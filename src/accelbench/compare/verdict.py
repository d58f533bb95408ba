"""Two sides' processes -> the ratio of their speeds, its interval, and the verdict."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, stdtrit

from accelbench.stats.robust import median

MIN_PROCESSES = 5  # a side: with fewer the spread between processes is not known well enough to answer
CONFIDENCE = 0.95
MARGIN = 0.02
NUM_DRAWS = 4000

Floats = NDArray[np.float64]


class Verdict(StrEnum):
    """What the second side is beside the first."""

    same = "same"
    faster = "faster"
    slower = "slower"
    cant_tell = "can't tell"


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The second side's speed over the first's.

    Attributes:
        num_first, num_second: fresh processes measured on each side.
        ratio: of the geometric means of the processes' median samples/s, second over first; above 1, the second is
            faster. None below `MIN_PROCESSES` a side.
        low, high: the bounds of its 95 % interval; None where the ratio is.
        is_told: whether the sides were measured so that the interval holds what drifts: in turns.
    """

    num_first: int
    num_second: int
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    is_told: bool = True

    def verdict(self, margin: float = MARGIN) -> Verdict:
        """The interval in a word.

        Args:
            margin: `same` is a ratio whose whole interval lies within 1 - margin to 1 + margin (a test of equivalence:
                Schuirmann 1987), even where it leaves 1 out; with 0, nothing is the same.
        """
        if self.low is None or self.high is None or not self.is_told:
            return Verdict.cant_tell
        if 1 - margin < self.low and self.high < 1 + margin:
            return Verdict.same
        if self.low > 1:
            return Verdict.faster
        return Verdict.slower if self.high < 1 else Verdict.cant_tell

    def is_slower_by(self, share: float) -> bool:
        """Whether the second side's speed is for sure below `1 - share` of the first's: its whole interval is."""
        return self.is_told and self.high is not None and self.high < 1 - share


def compare(first: Sequence[Sequence[float]], second: Sequence[Sequence[float]]) -> Comparison:
    """Compares two sides of fresh processes.

    Args:
        first: for each process, the samples/s of its blocks, at least one.
        second: the same, of the side that is set beside it.
    """
    if min(len(first), len(second)) < MIN_PROCESSES:
        return Comparison(num_first=len(first), num_second=len(second))
    a, b = (np.array([math.log(median(blocks)) for blocks in side]) for side in (first, second))
    low, high = interval(a, b)
    return Comparison(
        num_first=len(first),
        num_second=len(second),
        ratio=math.exp(b.mean() - a.mean()),
        low=math.exp(low),
        high=math.exp(high),
    )


def interval(first: Floats, second: Floats, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Bounds of the difference of two means, second less first, by a hierarchical bootstrap.

    Processes are drawn with replacement on each side, each with all its blocks as the median that stands for it: it
    holds their spread and their autocorrelation, and to draw blocks too would count them twice (Davison and Hinkley,
    Bootstrap Methods and their Application, section 3.8; for the process as the unit, Kalibera and Jones, Rigorous
    Benchmarking in Reasonable Time, ISMM 2013). With few processes plain percentiles are too narrow: they raise 12 %
    false alarms with five a side. The bounds are Hesterberg's expanded percentiles (What Teachers Should Know About
    the Bootstrap, The American Statistician 69, 2015, section 5.3): deviations widened by sqrt(n / (n - 1)), and the
    tail of the normal at the t quantile in place of the nominal one. Neither bound is nearer than that of Welch's
    t-test, since draws from five values have no long tails. Of 2,000 pairs that are alike 3 to 5 % are then told apart;
    docs/comparing.md has the power.

    Args:
        first: a value per process, at least two.
        second: the same; where the numbers differ the bounds are wider (Welch's would let in 6 to 8 % with 5 and 20).
        confidence: of the interval, between 0 and 1.

    Returns:
        (low, high). Equal values give equal bounds on every call: the draws are seeded.
    """
    difference = second.mean() - first.mean()
    quantile = float(stdtrit(_freedom(first, second), (1 + confidence) / 2))
    welch = quantile * math.sqrt(first.var(ddof=1) / first.size + second.var(ddof=1) / second.size)
    tail = float(ndtr(-quantile))
    low, high = np.quantile(_drawn(second, 1) - _drawn(first, 0), (tail, 1 - tail))
    return float(difference + min(low, -welch)), float(difference + max(high, welch))


def _freedom(first: Floats, second: Floats) -> float:
    """Welch's degrees of freedom; those of the smaller side where the numbers differ, as skewness then stays."""
    variances = first.var(ddof=1), second.var(ddof=1)
    if first.size != second.size or not any(variances):
        return min(first.size, second.size) - 1
    return float((first.size - 1) * sum(variances) ** 2 / sum(variance**2 for variance in variances))


def _drawn(values: Floats, seed: int) -> Floats:
    """Deviations of the means of draws from the mean of `values`, widened as an unbiased variance is."""
    deviations: Floats = _shares(values.size, seed) @ (values - values.mean())
    return deviations * math.sqrt(values.size / (values.size - 1))


@cache
def _shares(num: int, seed: int) -> Floats:
    """How much of each draw every one of `num` values is: (NUM_DRAWS, num), rows sum to 1."""
    counts = np.random.default_rng(seed).multinomial(num, np.full(num, 1 / num), NUM_DRAWS)
    return counts / num
