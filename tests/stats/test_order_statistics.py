import math
import statistics

import numpy as np
import pytest

from accelbench.stats import order_statistics as stats


def series(rng, num, related, outliers=0.1, sigma=0.02):
    """Seconds of blocks: a log-normal first-order autoregression, now and then with a burst of other load."""
    level, values = rng.normal(), []
    for _ in range(num):
        burst = 1 + rng.exponential(0.2) if rng.random() < outliers else 1
        values.append(math.exp(sigma * level) * burst)
        level = related * level + math.sqrt(1 - related**2) * rng.normal()
    return values


def median_interval(values):
    return stats.Sample(values).percentile_interval(50)


def test_fewer_values_than_bounds_need_give_none():
    assert median_interval([1.0, 2.0, 3.0, 4.0, 5.0]) is None
    assert median_interval([3.0, 1.0, 2.0, 6.0, 5.0, 4.0]) == (1.0, 6.0)
    assert (stats.half_width([1.0] * 5), stats.half_width([2.0] * 6)) == (None, 0)
    for values in ([2.0**i for i in range(9)], [1.0] * 10 + [2.0] * 11):
        low, high = median_interval(values)
        assert low <= stats.median(values) <= high


@pytest.mark.slow
@pytest.mark.parametrize("related", [0.0, 0.4])
@pytest.mark.parametrize("num", [10, 20, 60])
def test_the_interval_holds_the_median_of_blocks_that_resemble_their_neighbours(num, related):
    rng, truth = np.random.default_rng(7), stats.median(series(np.random.default_rng(99), 40_000, related))
    bounds = [median_interval(series(rng, num, related)) for _ in range(1500)]
    assert sum(low <= truth <= high for low, high in bounds) >= 0.93 * len(bounds)


@pytest.mark.parametrize("related", [0.1, 0.3, 0.5])
def test_the_correlation_of_neighbours_is_found_in_spite_of_outliers(related):
    rng = np.random.default_rng(1)
    correlations = [stats.Sample(series(rng, 300, related, outliers=0.02)).correlation for _ in range(40)]
    assert stats.median(correlations) == pytest.approx(related, abs=0.1)
    assert stats.Sample([1.0] * 20).correlation == 0


def test_outliers_are_counted_and_do_not_hide_each_other():
    values = [1.0, 1.01, 0.99, 1.02, 0.98] * 10
    assert [stats.Sample(sample).num_outliers for sample in (values, [*values, 2.0, 2.0, 2.0], [1.0] * 10)] == [0, 3, 0]


def test_a_change_of_level_is_told_from_noise():
    rng = np.random.default_rng(5)
    steady = rng.normal(1, 0.05, 60).tolist()
    assert stats.change(steady) == stats.change([1.0, 2.0]) == 0
    assert stats.change([v * (1 + 0.15 * i / 60) for i, v in enumerate(steady)]) == pytest.approx(0.1, abs=0.04)
    assert stats.change(np.repeat([1.0, 0.5], [40_000, 20_000])) == pytest.approx(-0.5)  # each with each takes long

    def num_changes(level, num=9):
        return sum(stats.change(each.tolist()) < 0 for each in rng.normal(1, 0.03, (400, num)) * level)

    # Of as few blocks as a quick cell has, neither noise nor a slow block passes for a change, and a drift does.
    assert num_changes(rng.choice([1, 0.8], (400, 8), p=[0.9, 0.1]), 8) < 8
    assert num_changes(np.linspace(1, 0.8, 8), 8) > 300
    # A last third at another speed, as after throttling, is told from three blocks on.
    assert num_changes(np.repeat([1, 0.8], [6, 3])) > 390
    assert num_changes(1) < 12


def test_levels_are_alike_within_the_tolerance_or_the_noise_which_is_stable_unless_it_grows():
    assert stats.alike([1.0] * 5, [1.04] * 5)
    assert not stats.alike([1.0] * 5, [1.08] * 5)
    assert stats.alike([1.0, 0.8, 1.2], [1.3, 0.9, 1.1])
    rng = np.random.default_rng(2)
    calm, wild = rng.normal(1, 0.01, 20).tolist(), rng.normal(1, 0.1, 20).tolist()
    assert stats.noise_is_stable(calm + calm)
    assert not stats.noise_is_stable(calm + wild)


@pytest.mark.parametrize("num", [1, 2, 5, 10, 64, 101])
def test_percentiles_are_numpys_nearest_rank_and_a_tail_needs_enough_samples(num):
    values = np.random.default_rng(num).normal(size=num).tolist()
    sample = stats.Sample(values)
    for percent in (0.5, 1, 25, 90, 99, 99.9, 100):
        assert sample.percentile(percent) == np.percentile(values, percent, method="inverted_cdf")
    assert sample.percentile(50) == sample.median == statistics.median(values)
    for percent, fewest in ((50, 6), (90, 64), (99, 662)):
        tails = [stats.Sample([1.0] * num).supported_percentile(percent) for num in (fewest - 1, fewest)]
        assert tails == [None, 1.0]
