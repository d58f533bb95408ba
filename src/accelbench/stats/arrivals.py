"""Statistics of times to a target. The functions are pure; a time of inf is a run that missed the target."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from accelbench.stats.means import mean_interval, student_quantile

RISK = 0.05
QUANTILES = 2.8016  # quantiles of the normal distribution, summed: two-sided test at this risk, power of 80 %


@dataclass(frozen=True)
class ArrivalRatio:
    """The first setting's time over the second's. The bounds are None if there are too few runs."""

    ratio: float | None  # `median_ratio`
    low: float | None
    high: float | None


def arrival_ratio(first: Sequence[float], second: Sequence[float], budget: float | None = None) -> ArrivalRatio:
    """Compares the times of two settings.

    If all runs train for the same number of epochs, they have different budgets of time. `budget` is then the shortest
    budget of a run that missed the target. Later arrivals of other runs count as missed, because the run with this
    budget could not have reached the target so late.
    """
    if budget is not None:
        first, second = ([time if time <= budget else math.inf for time in times] for times in (first, second))
    low, high = ratio_interval(first, second, budget) or (None, None)
    return ArrivalRatio(median_ratio(first, second), low, high)


def median_interval(times: Sequence[float]) -> tuple[float, float] | None:
    """95 % bounds of the median: order statistics, from the binomial distribution. None for fewer than 6 times."""
    from scipy.special import bdtr

    num, ordered = len(times), sorted(times)
    rank = int(np.count_nonzero(bdtr(np.arange(num), num, 0.5) <= RISK / 2))
    return (ordered[rank - 1], ordered[-rank]) if rank else None


def ratio_interval(
    first: Sequence[float], second: Sequence[float], budget: float | None = None
) -> tuple[float, float] | None:
    """95 % bounds of the ratio of the first times to the second times. They may be 0 and inf. None for too few runs.

    The bounds are the k-th smallest and the k-th largest ratio of all pairs. k is from the normal approximation of Mann
    and Whitney's U (Hollander and Wolfe, Nonparametric Statistical Methods, 4.3), rounded down. For up to 25 runs on
    each side, it is the exact k, or the exact k less 1.

    The time of a run that missed the target is unknown. It is at least the budget (None: just above the last arrival)
    and may be infinite. The lower bound uses the smallest possible ratio of each pair, the upper bound the largest. If
    both runs of a pair missed the target, these ratios are 0 and inf. This can only widen the interval.
    """
    num_pairs = len(first) * len(second)
    sigma = math.sqrt(num_pairs * (len(first) + len(second) + 1) / 12)
    rank = math.floor(num_pairs / 2 - student_quantile(math.inf, 1 - RISK) * sigma)
    if rank < 1:
        return None
    if budget is None:
        budget = math.nextafter(max(filter(math.isfinite, [*first, *second]), default=1.0), math.inf)
    least = np.divide.outer(np.minimum(first, budget), second)
    most = np.divide.outer(first, np.minimum(second, budget))
    return float(np.sort(least, axis=None)[rank - 1]), float(np.sort(most, axis=None)[-rank])


def median_ratio(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Hodges and Lehmann's estimate (Ann. Math. Statist. 34, 1963) on logarithms; see `ratio_interval`."""
    # It is the median ratio of all pairs, without pairs of two runs that missed. None if the median is infinite or 0.
    with np.errstate(invalid="ignore"):
        logs = np.subtract.outer(np.log(first), np.log(second))
    ratios = logs[~np.isnan(logs)]
    middle = float(np.median(ratios)) if ratios.size else math.nan
    return math.exp(middle) if math.isfinite(middle) else None


def fixed_is_met(values: Sequence[float], threshold: float, lower: bool) -> bool:
    """Whether the mean of several runs is beyond the threshold, by Student's one-sided test at 99 %.

    False for a single run, and for values that are not finite.
    """
    low, high = mean_interval(values, 0.98) if len(values) > 1 and math.isfinite(sum(values)) else (-math.inf, math.inf)
    return high < threshold if lower else low > threshold


def num_seeds_for(ratio: float, spread: float) -> int:
    """Seeds on each side with which a true ratio is significant in 80 % of cases; at least 6, as a median needs.

    Args:
        ratio: the true ratio of the times.
        spread: relative standard deviation of the times on one side.
    """
    # For log-normal times: the normal approximation of the t test, over 3 / pi, plus 1.5.
    # 1.5.
    effect = abs(math.log(ratio)) / math.sqrt(math.log1p(spread**2)) if spread else math.inf
    return max(6, math.ceil(2 * (QUANTILES / effect) ** 2 * math.pi / 3 + 1.5))
