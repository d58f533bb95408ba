"""Means and shares of independent values, with confidence intervals."""

import math
from collections.abc import Sequence
from statistics import NormalDist, fmean, stdev, variance


def mean_interval(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """Returns bounds of the mean by Student's t. Needs at least two independent, roughly normal values."""
    half = student_quantile(len(values) - 1, confidence) * stdev(values) / math.sqrt(len(values))
    return fmean(values) - half, fmean(values) + half


def mean_difference_interval(
    first: Sequence[float], second: Sequence[float], confidence: float = 0.95
) -> tuple[float, float]:
    """Returns bounds of the first mean minus the second, by Welch's method, which allows for different variances.

    Each side has at least two independent values. If neither side varies, both bounds equal the difference.
    docs/comparing.md has the risk of false alarms, and the power.
    """
    difference = fmean(first) - fmean(second)
    nums = len(first), len(second)
    errors = [variance(first) / nums[0], variance(second) / nums[1]]
    if not any(errors):
        return difference, difference
    # In the difference of two samples, skewness cancels only if they are of equal size. With 5 and 20 values, 6 to 8 %
    # of equal pairs would appear different by Welch's degrees of freedom.
    freedom = float(min(nums) - 1)
    if nums[0] == nums[1]:
        freedom *= sum(errors) ** 2 / sum(error**2 for error in errors)
    half = student_quantile(freedom, confidence) * math.sqrt(sum(errors))
    return difference - half, difference + half


def student_quantile(degrees_of_freedom: float, confidence: float) -> float:
    """Returns how many standard errors a bound of a mean's confidence interval is from the mean, by Student's t."""
    from scipy.special import stdtrit  # this import takes a tenth of a second, that of scipy.stats a whole one

    return float(stdtrit(degrees_of_freedom, (1 + confidence) / 2))


def share_difference(num: int, only_first: int, only_second: int) -> tuple[float, float]:
    """Returns the 95 % interval of the first side's share of right answers minus the second side's share.

    Both sides answered the same questions. It is Wald's interval, after 0.5 is added to each of the four numbers in the
    table of right and wrong answers (Agresti and Min, Statistics in Medicine 24, 2005).

    Args:
        num: number of questions, at least 1.
        only_first: questions that only the first side answered rightly.
        only_second: questions that only the second side answered rightly.
    """
    total, first, second = num + 2, only_first + 0.5, only_second + 0.5
    difference = (first - second) / total
    error = math.sqrt(first + second - (first - second) ** 2 / total) / total
    width = NormalDist().inv_cdf(0.975) * error
    return max(-1.0, difference - width), min(1.0, difference + width)
