"""Welch's interval of the difference of two means (Biometrika 34, 1947)."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, variance

from scipy.stats import ttest_ind


@dataclass(frozen=True)
class MeanDifference:
    """The first mean minus the second, with the bounds of its confidence interval."""

    mean: float
    low: float
    high: float


def mean_difference(first: Sequence[float], second: Sequence[float], confidence: float = 0.95) -> MeanDifference:
    """The difference of two means, with an interval that assumes no common variance.

    Args:
        first: at least two values.
        second: at least two values.
        confidence: above 0, below 1.

    Returns:
        Bounds equal to the mean if neither sample varies: t is not defined there.
    """
    mean = fmean(first) - fmean(second)
    if variance(first) == variance(second) == 0:
        return MeanDifference(mean, mean, mean)
    with warnings.catch_warnings():
        # A sample that does not vary has a variance of exactly 0, which is right here.
        warnings.filterwarnings("ignore", "Precision loss occurred", RuntimeWarning)
        interval = ttest_ind(first, second, equal_var=False).confidence_interval(confidence)
    return MeanDifference(mean, float(interval.low), float(interval.high))
