"""Statistics of times to a target: pure functions on those of runs with one budget, inf: it did not arrive."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from accelbench.stats.means import mean_interval, student_quantile

RISK = 0.05
QUANTILES = 2.8016  # the sum of the normal's for a two-sided test at this risk and for a power of 80 %


@dataclass(frozen=True)
class ArrivalRatio:
    """How many times as long the first setting takes as the second; `low` and `high` are None for too few runs."""

    ratio: float | None  # `median_ratio`
    low: float | None
    high: float | None


def arrival_ratio(first: Sequence[float], second: Sequence[float], budget: float | None = None) -> ArrivalRatio:
    """What is said of two settings' times.

    If budgets differ, as those of equal numbers of epochs do, `budget` is the shortest of a run that did not arrive:
    what arrived later counts as not arrived, since that run could not show it.
    """
    if budget is not None:
        first, second = ([time if time <= budget else math.inf for time in times] for times in (first, second))
    low, high = ratio_interval(first, second, budget) or (None, None)
    return ArrivalRatio(median_ratio(first, second), low, high)


def median_interval(times: Sequence[float]) -> tuple[float, float] | None:
    """95 % bounds of the median: order statistics, by the binomial distribution. None for fewer than 6 times."""
    from scipy.special import bdtr

    num, ordered = len(times), sorted(times)
    rank = int(np.count_nonzero(bdtr(np.arange(num), num, 0.5) <= RISK / 2))
    return (ordered[rank - 1], ordered[-rank]) if rank else None


def ratio_interval(
    first: Sequence[float], second: Sequence[float], budget: float | None = None
) -> tuple[float, float] | None:
    """95 % bounds of the ratio of the first's times to the second's; 0 and inf are possible. None for too few runs.

    Of the ratios of all pairs, the k-th from each end, where k is from the normal approximation to Mann and Whitney's U
    (Hollander and Wolfe, Nonparametric Statistical Methods, 4.3), rounded down: of up to 25 runs a side, it is the
    exact one or one less. A run that did not arrive takes from the budget (None: just above the last arrival) to
    forever: the ratios' least are for the lower bound, their most for the upper; 0 and inf if neither arrived. This can
    only widen the interval.
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
    """Hodges and Lehmann's estimate (Ann. Math. Statist. 34, 1963), on logs, which belongs to `ratio_interval`."""
    # The median ratio of all pairs but those of which neither arrived. None if it is of a run that did not arrive.
    with np.errstate(invalid="ignore"):
        logs = np.subtract.outer(np.log(first), np.log(second))
    known = logs[~np.isnan(logs)]
    middle = float(np.median(known)) if known.size else math.nan
    return math.exp(middle) if math.isfinite(middle) else None


def fixed_is_met(values: Sequence[float], threshold: float, lower: bool) -> bool:
    """Whether the mean of runs of one length is beyond it, by Student's one-sided 99 %: not of one run, or of NaN."""
    low, high = mean_interval(values, 0.98) if len(values) > 1 and math.isfinite(sum(values)) else (-math.inf, math.inf)
    return high < threshold if lower else low > threshold


def num_seeds_for(ratio: float, spread: float) -> int:
    """Seeds a side, at least the 6 of a median's interval, until a true ratio other than 1 is sure in 80 % of cases."""
    # For log-normal times of this relative deviation: the t test's normal approximation over 3 / pi, plus 1.5.
    effect = abs(math.log(ratio)) / math.sqrt(math.log1p(spread**2)) if spread else math.inf
    return max(6, math.ceil(2 * (QUANTILES / effect) ** 2 * math.pi / 3 + 1.5))
