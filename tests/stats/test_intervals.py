"""Against scipy's own tests, and against simulated settings whose true times are known."""

import math
from statistics import fmean, median, stdev

import numpy as np
import pytest
import scipy  # its parts are imported when they are used

from accelbench.stats import intervals
from accelbench.stats.intervals import mean_difference_interval, mean_interval, share_difference
from stats.test_request_latencies import at_most

INF = math.inf
FIRST = [27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1, 21.9, 22.6, 23.1, 19.6, 19.0, 21.7, 21.4]
SECOND = [27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0, 24.8, 20.2, 21.9, 22.1, 22.9, 20.5, 24.4]


@pytest.mark.parametrize(
    ("first", "second"), [(FIRST, SECOND), ([0.976, 0.978, 0.977], [0.970, 0.974, 0.972]), ([1.0, 2.0], [100.0, 300.0])]
)
def test_the_interval_of_a_mean_is_students_and_that_of_a_difference_welchs(first, second):
    wanted = scipy.stats.t.interval(0.95, len(first) - 1, loc=fmean(first), scale=stdev(first) / len(first) ** 0.5)
    assert mean_interval(first) == pytest.approx(wanted)
    wanted = scipy.stats.ttest_ind(first, second, equal_var=False).confidence_interval(0.95)
    assert mean_difference_interval(first, second) == pytest.approx((wanted.low, wanted.high))
    assert mean_difference_interval([2.0] * 3, [1.5] * 4) == (0.5, 0.5)


def test_of_sides_of_different_sizes_the_smaller_one_decides_the_degrees_of_freedom():
    difference = fmean(FIRST[:5]) - fmean(SECOND)
    error = difference / scipy.stats.ttest_ind(FIRST[:5], SECOND, equal_var=False).statistic
    half = scipy.stats.t.ppf(0.975, 4) * error
    assert mean_difference_interval(FIRST[:5], SECOND) == pytest.approx((difference - half, difference + half))


def test_an_interval_of_shares_holds_the_observed_difference_and_narrows_with_the_samples():
    bounds = [share_difference(100 * scale, 4 * scale, 9 * scale) for scale in (1, 10, 100)]
    assert all(low < -0.05 < high for low, high in bounds)
    widths = [high - low for low, high in bounds]
    assert widths[0] / widths[2] == pytest.approx(10, rel=0.1)
    low, high = share_difference(1000, 0, 0)  # equal answers still leave one
    assert low < 0 < high < 0.003


def times(rng, runs, num, ratio=1.0, spread=0.1, late=0.0):
    """Log-normal ones of this relative spread around a median of `ratio`; the share `late` does not arrive."""
    sigma = math.sqrt(math.log1p(spread**2))
    drawn = ratio * np.exp(rng.normal(0, sigma, (runs, num)))
    return np.where(drawn > math.exp(sigma * scipy.stats.norm.isf(late)), INF, drawn) if late else drawn


def is_sure(*args, **limits):
    comparison = intervals.arrival_ratio(*args, **limits)
    return (comparison.low or 0) > 1 or (comparison.high or INF) < 1


@pytest.mark.parametrize(("num", "rank"), [(6, 1), (8, 1), (9, 2), (10, 2), (15, 4), (20, 6)])
def test_a_median_lies_between_the_kth_times_from_both_ends(num, rank):
    ordered = [*range(1, num), INF]
    assert intervals.median_interval(ordered[::-1]) == (ordered[rank - 1], ordered[-rank])
    wanted = scipy.stats.quantile_test(ordered[:-1] + [num], p=0.5).confidence_interval()
    assert intervals.median_interval(ordered[:-1] + [num]) == (wanted.low, wanted.high)
    assert intervals.median_interval(ordered[:5]) is None


@pytest.mark.parametrize(("num", "rank"), [(4, 1), (5, 3), (6, 5), (8, 13), (10, 24), (15, 65), (20, 127)])
def test_a_ratio_lies_between_the_kth_of_all_pairs_from_both_ends(num, rank):
    first, second = times(np.random.default_rng(num), 2, num)
    ordered = sorted(one / two for one in first for two in second)
    assert intervals.ratio_interval(first, second) == (ordered[rank - 1], ordered[-rank])
    assert intervals.median_ratio(first, second) == pytest.approx(median(ordered), rel=1e-3)
    assert intervals.ratio_interval(first[:3], second[:3]) is None
    within = first / (ordered[rank - 1] + 1e-9)
    assert scipy.stats.mannwhitneyu(within, second, method="exact").pvalue > 0.04  # no wider than the exact one by much


def test_a_run_that_did_not_arrive_takes_between_the_budget_and_forever():
    none, some = [INF] * 5, [1.0, 2.0, 3.0, 4.0, 5.0]
    assert intervals.ratio_interval(none, none) == intervals.ratio_interval(none, none, 9) == (0, INF)
    assert intervals.ratio_interval(none, some, budget=10) == (10 / 5, INF)
    assert intervals.ratio_interval(some, none, budget=10) == (0, 5 / 10)
    assert intervals.ratio_interval(some, none)[1] < 1
    assert [intervals.median_ratio(*pair) for pair in ((none, none), (none, some), (some, none))] == [None] * 3
    assert intervals.median_ratio([INF, 2.0, 4.0], [INF, 2.0, 2.0]) == pytest.approx(math.sqrt(2))
    assert not is_sure([1, 2, 3, 4, 9.0], [8, 8.5, 8, 8, INF], budget=8.2)
    assert not is_sure([1, 2, 3, 4, INF], [8, 9, 8, 8, INF], budget=10)
    assert is_sure(some, [8, 9, 8, 8, INF], budget=10)
    assert intervals.arrival_ratio(some[:3], some[:3]).low is None


def test_a_fixed_length_meets_a_target_that_the_mean_surely_exceeds():
    values = np.random.default_rng(2).normal(0.94, 0.002, 10)
    for target in (0.936, 0.938, 0.9385, 0.939, 0.95):
        met = scipy.stats.ttest_1samp(values, target, alternative="greater").pvalue < 0.01
        assert intervals.fixed_is_met(values.tolist(), target, lower=False) == met
        assert intervals.fixed_is_met((-values).tolist(), -target, lower=True) == met
    for few in ([], [0.99], [0.99, math.nan, 0.99], [0.9, 0.9]):
        assert not intervals.fixed_is_met(few, 0.9, lower=False)
    assert intervals.fixed_is_met([0.91, 0.91], 0.9, lower=False)


SLOW = [pytest.param(num, late, marks=pytest.mark.slow) for num in (5, 20) for late in (0.0, 0.3)]


@pytest.mark.parametrize(("num", "late"), [(6, 0.0), *SLOW])
def test_of_2000_comparisons_of_equal_settings_at_most_5_percent_are_sure(num, late):
    rng = np.random.default_rng([num, int(10 * late)])
    first, second = (times(rng, 2000, num, late=late) for _ in "ab")
    assert sum(map(is_sure, first, second)) <= at_most(0.05, 2000)
    if num >= 6:
        bounds = [intervals.median_interval(times) for times in first]
        assert sum(not low <= 1 <= high for low, high in bounds) <= at_most(0.05, 2000)
