"""Confidence intervals of means, shares, medians and ratios of independent values."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, stdev, variance

import numpy as np

RISK = 0.05


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
    # This import takes a tenth of a second, that of scipy.stats a whole one.
    from scipy.special import stdtrit

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


@dataclass(frozen=True)
class ArrivalRatio:
    """The time in which the first setting reached a target, divided by that of the second.

    The bounds are None if there are too few runs.
    """

    ratio: float | None  # `median_ratio`
    low: float | None
    high: float | None


def arrival_ratio(first: Sequence[float], second: Sequence[float], budget: float = math.inf) -> ArrivalRatio:
    """Compares the times in which the runs of two settings reached a target. If a run missed it, its time is inf.

    If all runs train for the same number of epochs, slow runs have more time to reach the target than fast runs. A
    `budget` gives all runs the same time: a run that reached the target later counts as missed. The budget is the
    length of the shortest run that missed the target. It is inf if no run missed the target.
    """
    first, second = ([time if time <= budget else math.inf for time in times] for times in (first, second))
    low, high = ratio_interval(first, second, budget) or (None, None)
    return ArrivalRatio(median_ratio(first, second), low, high)


def median_interval(times: Sequence[float]) -> tuple[float, float] | None:
    """Returns the 95 % bounds of the median. They are order statistics, chosen by the binomial distribution.

    Returns None if there are fewer than 6 times.
    """
    from scipy.special import bdtr

    num, ordered = len(times), sorted(times)
    rank = int(np.count_nonzero(bdtr(np.arange(num), num, 0.5) <= RISK / 2))
    return (ordered[rank - 1], ordered[-rank]) if rank else None


def ratio_interval(
    first: Sequence[float], second: Sequence[float], budget: float = math.inf
) -> tuple[float, float] | None:
    """Returns 95 % bounds of `first time / second time`, from 0 to inf. Returns None for too few runs.

    Each pair of a first and a second time has a ratio. The lower bound is the k-th smallest ratio, and the upper bound
    is the k-th largest ratio.

    The time of a run that missed the target is unknown: it may be any time from `budget` to inf. The lower bound uses
    the smallest possible ratio of each pair, and the upper bound uses the largest. If both runs of a pair missed the
    target, these ratios are 0 and inf. Unknown times can only widen the interval.

    Args:
        budget: least time of a run that missed the target. If it is inf, a time just above the longest time of a run
            that reached the target is used.
    """
    # Here k is `rank`, by the normal approximation of Mann and Whitney's U (Hollander and Wolfe, Nonparametric
    # Statistical Methods, 4.3), rounded down. For up to 25 runs on each side, it is exact or too small by 1.
    num_pairs = len(first) * len(second)
    sigma = math.sqrt(num_pairs * (len(first) + len(second) + 1) / 12)
    rank = math.floor(num_pairs / 2 - student_quantile(math.inf, 1 - RISK) * sigma)
    if rank < 1:
        return None
    if math.isinf(budget):
        budget = math.nextafter(max(filter(math.isfinite, [*first, *second]), default=1.0), math.inf)
    least = np.divide.outer(np.minimum(first, budget), second)
    most = np.divide.outer(first, np.minimum(second, budget))
    return float(np.sort(least, axis=None)[rank - 1]), float(np.sort(most, axis=None)[-rank])


def median_ratio(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Returns the median ratio of all pairs (see `ratio_interval`). Returns None if it is infinite or 0.

    It is Hodges and Lehmann's estimate (Ann. Math. Statist. 34, 1963) on logarithms.
    """
    # Pairs of two runs that missed the target have no ratio.
    with np.errstate(invalid="ignore"):
        logs = np.subtract.outer(np.log(first), np.log(second))
    ratios = logs[~np.isnan(logs)]
    middle = float(np.median(ratios)) if ratios.size else math.nan
    return math.exp(middle) if math.isfinite(middle) else None


def fixed_is_met(values: Sequence[float], threshold: float, lower: bool) -> bool:
    """Decides whether the mean of several runs is surely beyond the threshold: Student's one-sided test at 99 %.

    Returns False if there is only one run, or if a value is not finite.
    """
    low, high = (
        mean_interval(values, 0.98)
        if len(values) > 1 and math.isfinite(sum(values))
        else (-math.inf, math.inf)
    )
    return high < threshold if lower else low > threshold
