import math
import statistics

import numpy as np
import pytest
from scipy.stats import binom

from accelbench.stats import order_statistics


def series(rng, num, related, outliers=0.1, sigma=0.02):
    """Seconds of blocks: a log-normal first-order autoregression, now and then with a burst of other load."""
    level, values = rng.normal(), []
    for _ in range(num):
        burst = 1 + rng.exponential(0.2) if rng.random() < outliers else 1
        values.append(math.exp(sigma * level) * burst)
        level = related * level + math.sqrt(1 - related**2) * rng.normal()
    return values


def true_median(related, outliers=0.1, sigma=0.02):
    return order_statistics.median(series(np.random.default_rng(99), 40_000, related, outliers, sigma))


def test_fewer_values_than_bounds_need_give_none():
    assert order_statistics.median_interval([1.0, 2.0, 3.0, 4.0, 5.0]) is None
    assert order_statistics.median_interval([3.0, 1.0, 2.0, 6.0, 5.0, 4.0]) == (1.0, 6.0)
    assert order_statistics.median_interval(range(7), confidence=0.99) is None
    assert order_statistics.median_interval(range(8), confidence=0.99) == (0, 7)
    assert order_statistics.half_width([1.0] * 5) is None
    assert order_statistics.half_width([2.0] * 6) == 0


@pytest.mark.slow
@pytest.mark.parametrize("related", [0.0, 0.4])
@pytest.mark.parametrize("num", [10, 20, 60])
def test_the_interval_holds_the_median_of_blocks_that_resemble_their_neighbours(num, related):
    rng, truth = np.random.default_rng(7), true_median(related)
    bounds = [order_statistics.median_interval(series(rng, num, related)) for _ in range(1500)]
    assert sum(low <= truth <= high for low, high in bounds) / len(bounds) >= 0.93


@pytest.mark.slow
@pytest.mark.parametrize("percent", [90, 99])
def test_the_interval_holds_a_tails_percentile(percent):
    rng, num = np.random.default_rng(3), order_statistics.NUM_SAMPLES_FOR[percent]
    truth = -math.log(1 - percent / 100)
    bounds = [order_statistics.Sample(rng.exponential(size=num)).percentile_interval(percent) for _ in range(500)]
    assert sum(low <= truth <= high for low, high in bounds) / len(bounds) >= 0.93


def test_many_independent_values_give_the_binomials_bounds():
    values = np.random.default_rng(0).permutation(1000).tolist()
    low, high = order_statistics.median_interval(values)
    assert low == pytest.approx(binom.ppf(0.025, 1000, 0.5), abs=4)
    assert high == pytest.approx(binom.ppf(0.975, 1000, 0.5), abs=4)


@pytest.mark.parametrize("related", [0.1, 0.3, 0.5])
def test_the_correlation_of_neighbours_is_found_in_spite_of_outliers(related):
    rng = np.random.default_rng(1)
    found = [order_statistics.Sample(series(rng, 300, related, outliers=0.02)).correlation for _ in range(40)]
    assert order_statistics.median(found) == pytest.approx(related, abs=0.1)
    assert order_statistics.Sample([1.0] * 20).correlation == 0


def test_outliers_are_counted_and_do_not_hide_each_other():
    values = [1.0, 1.01, 0.99, 1.02, 0.98] * 10
    assert order_statistics.Sample(values).num_outliers == 0
    assert order_statistics.Sample([*values, 2.0, 2.0, 2.0]).num_outliers == 3
    assert order_statistics.Sample([1.0] * 10).num_outliers == 0


def test_a_change_of_level_is_told_from_noise():
    rng = np.random.default_rng(5)
    steady = rng.normal(1, 0.05, 60).tolist()
    assert order_statistics.change(steady) == 0
    slower = [value * (1 + 0.15 * place / 60) for place, value in enumerate(steady)]
    assert order_statistics.change(slower) == pytest.approx(0.1, abs=0.04)
    assert order_statistics.change([1.0, 2.0]) == 0
    # Of as few blocks as a quick cell has, noise seldom passes for a change.
    few = [order_statistics.change(rng.normal(1, 0.05, 10).tolist()) for _ in range(500)]
    assert sum(found != 0 for found in few) < 50


def test_levels_are_alike_within_the_tolerance_or_the_noise():
    assert order_statistics.alike([1.0] * 5, [1.04] * 5)
    assert not order_statistics.alike([1.0] * 5, [1.08] * 5)
    assert order_statistics.alike([1.0, 0.8, 1.2], [1.3, 0.9, 1.1])


def test_noise_that_grows_is_not_stable():
    rng = np.random.default_rng(2)
    calm, wild = rng.normal(1, 0.01, 20).tolist(), rng.normal(1, 0.1, 20).tolist()
    assert order_statistics.noise_is_stable(calm + calm)
    assert not order_statistics.noise_is_stable(calm + wild)


@pytest.mark.parametrize("percent", [0.5, 1, 25, 90, 99, 99.9, 100])
@pytest.mark.parametrize("num", [1, 2, 5, 10, 64, 101])
def test_percentiles_are_numpys_nearest_rank(num, percent):
    values = np.random.default_rng(num).normal(size=num).tolist()
    sample = order_statistics.Sample(values)
    assert sample.percentile(percent) == np.percentile(values, percent, method="inverted_cdf")
    assert sample.percentile(50) == sample.median == statistics.median(values)


@pytest.mark.parametrize("num", [6, 7, 8, 9, 20, 21])
@pytest.mark.parametrize("values", ["equal", "apart", "two levels"])
def test_the_interval_of_the_median_contains_it(num, values):
    made = {"equal": [1.0] * num, "apart": [2.0**i for i in range(num)], "two levels": [1.0] * (num // 2) + [2.0] * num}
    sample = order_statistics.Sample(made[values][:num])
    low, high = sample.percentile_interval(50)
    assert low <= sample.supported_percentile(50) <= high


@pytest.mark.parametrize(("percent", "fewest"), [(50, 6), (90, 64), (99, 662)])
def test_a_tail_needs_enough_samples(percent, fewest):
    assert order_statistics.Sample([1.0] * (fewest - 1)).supported_percentile(percent) is None
    assert order_statistics.Sample([1.0] * fewest).supported_percentile(percent) == 1.0
