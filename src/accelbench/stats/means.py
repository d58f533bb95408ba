"""Means and shares with their intervals: of several processes, and of the difference between two."""

import math
from collections.abc import Sequence
from statistics import NormalDist, fmean, stdev, variance
from typing import NamedTuple


class MeanDifference(NamedTuple):
    """The first mean minus the second, with the bounds of its confidence interval."""

    mean: float
    low: float
    high: float


def mean_interval(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """The bounds of the mean of at least two values, which are taken as independent and about normal."""
    half = student_quantile(len(values) - 1, confidence) * stdev(values) / math.sqrt(len(values))
    return fmean(values) - half, fmean(values) + half


def welch_freedom(errors: Sequence[float], nums: Sequence[int]) -> float:
    """Welch's degrees of freedom (Biometrika 34, 1947) of a sum or difference of independent means.

    `errors` are the squares of their standard errors, not all 0, and `nums` the numbers of their values.
    """
    return sum(errors) ** 2 / sum(error**2 / (num - 1) for error, num in zip(errors, nums, strict=True))


def mean_difference(first: Sequence[float], second: Sequence[float], confidence: float = 0.95) -> MeanDifference:
    """The difference of two means of at least two values, with an interval that assumes no common variance.

    Its bounds equal the mean if neither sample varies.
    """
    mean = fmean(first) - fmean(second)
    errors = [variance(values) / len(values) for values in (first, second)]
    if not any(errors):
        return MeanDifference(mean, mean, mean)
    half = student_quantile(welch_freedom(errors, (len(first), len(second))), confidence) * math.sqrt(sum(errors))
    return MeanDifference(mean, mean - half, mean + half)


def student_quantile(degrees_of_freedom: float, confidence: float) -> float:
    """How many standard errors to either side of a mean hold the true one with `confidence`, by Student's t."""
    from scipy.special import stdtrit  # its import takes a tenth of a second; scipy.stats takes a whole one

    return float(stdtrit(degrees_of_freedom, (1 + confidence) / 2))


def share_difference(num: int, only_first: int, only_second: int, confidence: float = 0.95) -> tuple[float, float]:
    """An interval of the first share minus the second, for answers to the same questions.

    Of `num` samples, at least 1, some only the first answered rightly, and some only the second. Wald's interval with
    half a count added to each of the four cells of the table (Agresti and Min, Statistics in Medicine 24, 2005).
    """
    total, first, second = num + 2, only_first + 0.5, only_second + 0.5
    difference = (first - second) / total
    error = math.sqrt(first + second - (first - second) ** 2 / total) / total
    width = NormalDist().inv_cdf((1 + confidence) / 2) * error
    return max(-1.0, difference - width), min(1.0, difference + width)
