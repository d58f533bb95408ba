import math

import numpy as np
import pytest
from scipy.stats import binom

from accelbench import stats


@pytest.mark.parametrize("num", range(1, 61))
def test_the_medians_bounds_are_the_binomials(num):
    values = list(range(1, num + 1))
    rank = max((k for k in range(num // 2 + 1) if k == 0 or binom.cdf(k - 1, num, 0.5) <= 0.025), default=0)
    expected = (rank, num + 1 - rank) if rank else None
    assert stats.median_interval(values[::-1]) == expected
    assert (expected is None) == (num < 6)


def test_a_higher_confidence_needs_more_values():
    assert stats.median_interval(range(7), confidence=0.99) is None
    assert stats.median_interval(range(8), confidence=0.99) == (0, 7)


@pytest.mark.parametrize("num", [6, 11, 20])
def test_the_bounds_cover_the_true_median(num):
    draws = np.random.default_rng(7).exponential(size=(2000, num)).tolist()
    bounds = [stats.median_interval(values) for values in draws]
    covered = sum(low <= math.log(2) <= high for low, high in bounds)
    assert covered / len(bounds) >= 0.93
    # And no wider than they need be: one rank further in would miss it too often.
    inner = [(sorted(v)[v_rank], sorted(v)[-1 - v_rank]) for v in draws if (v_rank := rank_of(v))]
    assert sum(low <= math.log(2) <= high for low, high in inner) / len(inner) < 0.95


def rank_of(values):
    low, _ = stats.median_interval(values)
    return sorted(values).index(low) + 1


@pytest.mark.parametrize("percent", [0.5, 1, 25, 50, 90, 99, 99.9, 100])
@pytest.mark.parametrize("num", [1, 2, 5, 10, 64, 101])
def test_percentiles_are_numpys_nearest_rank(num, percent):
    values = np.random.default_rng(num).normal(size=num).tolist()
    assert stats.percentile(values, percent) == np.percentile(values, percent, method="inverted_cdf")


@pytest.mark.parametrize(("percent", "fewest"), [(50, 6), (90, 64), (99, 662)])
def test_a_tail_needs_enough_samples(percent, fewest):
    assert stats.supported_percentile([1.0] * (fewest - 1), percent) is None
    assert stats.supported_percentile([1.0] * fewest, percent) == 1.0
