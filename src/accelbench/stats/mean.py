"""The mean of several processes, with Student's interval."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev


@dataclass(frozen=True)
class Mean:
    """A mean of `num` values with the bounds of its confidence interval; None if there is only one value."""

    num: int
    mean: float
    low: float | None
    high: float | None


def mean_of(values: Sequence[float], confidence: float = 0.95) -> Mean:
    """The mean of at least one value, with an interval that takes the values as independent and about normal."""
    num, mean = len(values), fmean(values)
    if num < 2:
        return Mean(num, mean, None, None)
    from scipy.special import stdtrit  # its import takes a tenth of a second; scipy.stats takes a whole one

    half = float(stdtrit(num - 1, (1 + confidence) / 2)) * stdev(values) / math.sqrt(num)
    return Mean(num, mean, mean - half, mean + half)
