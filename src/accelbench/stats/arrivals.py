"""Exact statistics of times to a target: pure functions on those of runs with one budget, inf: it did not arrive."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean, variance

import numpy as np
from numpy.typing import NDArray

from accelbench.stats.means import mean_interval, welch_freedom

RISK = 0.05
QUANTILES = 2.8016  # the sum of the normal's for a two-sided test at this risk and for a power of 80 %


@dataclass(frozen=True)
class ArrivalRatio:
    """How many times as long the first setting takes as the second; `low` and `high` are None for too few runs."""

    ratio: float | None  # `median_ratio`
    low: float | None
    high: float | None
    p: float
    shares_apart: bool  # the shares that arrived surely differ


def arrival_ratio(first: Sequence[float], second: Sequence[float], budget: float | None = None) -> ArrivalRatio:
    """What is said of two settings' times.

    If budgets differ, as those of equal numbers of epochs do, `budget` is the shortest of a run that did not arrive:
    what arrived later counts as not arrived, since that run could not show it.
    """
    if budget is not None:
        first, second = ([time if time <= budget else math.inf for time in times] for times in (first, second))
    low, high = ratio_interval(first, second, budget) or (None, None)
    apart = shares_differ(sum(np.isfinite(first)), len(first), sum(np.isfinite(second)), len(second))
    return ArrivalRatio(median_ratio(first, second), low, high, permutation_p(first, second), apart)


def median_interval(times: Sequence[float], confidence: float = 1 - RISK) -> tuple[float, float] | None:
    """Bounds of the median: order statistics, by the binomial distribution. None for too few times: 95 % needs 6."""
    from scipy.special import bdtr  # its import takes a tenth of a second; scipy.stats takes a whole one

    num, ordered = len(times), sorted(times)
    rank = int(np.count_nonzero(2 * bdtr(np.arange(num), num, 0.5) <= 1 - confidence))
    return (ordered[rank - 1], ordered[-rank]) if rank else None


def ratio_interval(
    first: Sequence[float], second: Sequence[float], budget: float | None = None
) -> tuple[float, float] | None:
    """95 % bounds of the ratio of the first's times to the second's; 0 and inf are possible. None for too few runs.

    Of the ratios of all pairs, the k-th from each end, by the exact distribution of Mann and Whitney's U (Hollander and
    Wolfe, Nonparametric Statistical Methods, 4.3). A run that did not arrive takes from the budget (None: just above
    the last arrival) to forever: the ratios' least are for the lower bound, their most for the upper; 0 and inf if
    neither arrived. This can only widen the interval.
    """
    if not (rank := _rank_of_ratio(len(first), len(second))):
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


def permutation_p(first: Sequence[float], second: Sequence[float]) -> float:
    """The chance of sums of ranks at least as far apart if settings do not matter: two-sided, exact with ties too."""
    times = np.array([*first, *second])
    ordered = np.sort(times)
    doubled = np.searchsorted(ordered, times, "left") + np.searchsorted(ordered, times, "right") + 1  # mean ranks
    ways = _ways(doubled.tolist(), len(first))
    distances = np.abs(np.arange(len(ways)) - len(first) * (len(times) + 1))
    return float(ways[distances >= distances[doubled[: len(first)].sum()]].sum() / ways.sum())


@cache
def _rank_of_ratio(num_first: int, num_second: int) -> int:
    """The largest k for which the k-th ratios from both ends hold the true one with 95 %; 0 if none does."""
    sums = np.cumsum(_ways(range(1, num_first + num_second + 1), num_first))
    return int(np.count_nonzero((sums > 0) & (2 * sums <= RISK * sums[-1])))


def _ways(ranks: Sequence[int], num: int) -> NDArray[np.float64]:
    """In how many ways `num` of the ranks give each sum (Streitberg and Röhmel, Statist. Software Newsl. 12, 1986)."""
    ways = np.zeros((num + 1, sum(ranks) + 1))
    ways[0, 0] = 1
    for rank in ranks:
        ways[1:, rank:] += ways[:-1, :-rank]
    return np.asarray(ways[num])


def share_interval(num: int, of: int) -> tuple[float, float]:
    """95 % bounds of the share that arrives, if `num` of `of` runs did: Clopper and Pearson's (Biometrika 26, 1934)."""
    from scipy.special import betaincinv

    low = float(betaincinv(num, of - num + 1, RISK / 2)) if num else 0.0
    return low, float(betaincinv(num + 1, of - num, 1 - RISK / 2)) if num < of else 1.0


def shares_differ(num_first: int, of_first: int, num_second: int, of_second: int) -> bool:
    """Whether the shares that arrived surely differ: Fisher's exact test, two-sided, at 5 %."""
    num = num_first + num_second
    ways = [math.comb(of_first, i) * math.comb(of_second, num - i) for i in range(num + 1)]
    return sum(each for each in ways if each <= ways[num_first]) < RISK * sum(ways)


def expected_with_restarts(times: Sequence[float], budget: float) -> float | None:
    """ERT (Auger and Hansen, CEC 2005): the expected time if runs begin anew after the budget; None if none arrives."""
    num = sum(time <= budget for time in times)
    return math.fsum(min(time, budget) for time in times) / num if num else None


def fixed_is_met(values: Sequence[float], threshold: float, lower: bool) -> bool:
    """Whether the mean of runs of one length is beyond it, by Student's one-sided 99 %: not of one run, or of NaN."""
    low, high = mean_interval(values, 0.98) if len(values) > 1 and math.isfinite(sum(values)) else (-math.inf, math.inf)
    return high < threshold if lower else low > threshold


def fewer_epochs(epochs: Sequence[float], reference: Sequence[float]) -> tuple[float, float] | None:
    """The p of a mean so much below the reference's (Welch's, one-sided), and the ratio found with 80 % power.

    Such as 0.9; by Student's quantiles. A run that did not arrive counts as the latest arrival of both. None for fewer
    than two runs of either.
    """
    from scipy.special import stdtr, stdtrit

    latest = max(filter(math.isfinite, [*epochs, *reference]), default=math.inf)
    if min(len(epochs), len(reference)) < 2 or latest == math.inf:
        return None
    few, usual = ([min(each, latest) for each in side] for side in (epochs, reference))
    errors = [variance(side) / len(side) for side in (few, usual)]
    if not (error := math.sqrt(sum(errors))):
        return float(few[0] >= usual[0]), 1.0
    freedom = welch_freedom(errors, (len(few), len(usual)))
    found = 1 - (stdtrit(freedom, 1 - RISK) + stdtrit(freedom, 0.8)) * error / fmean(usual)
    return float(stdtr(freedom, (fmean(few) - fmean(usual)) / error)), max(0.0, float(found))


def num_seeds_for(ratio: float, spread: float) -> int:
    """Seeds a side, at least the 6 of a median's interval, until a true ratio other than 1 is sure in 80 % of cases."""
    # For log-normal times of this relative deviation: the t test's normal approximation over 3 / pi, plus 1.5.
    effect = abs(math.log(ratio)) / math.sqrt(math.log1p(spread**2)) if spread else math.inf
    return max(6, math.ceil(2 * (QUANTILES / effect) ** 2 * math.pi / 3 + 1.5))
