"""Against known truths: processes whose real speeds, and how they scatter, are drawn here."""

import math

import numpy as np
import pytest

from accelbench.stats.bootstrap import difference_interval

NUM_BLOCKS = 10
# How processes scatter: (spread, what draws it), around 0 as the logs of speeds do.
SPREADS = {
    "even": (0.02, lambda rng, shape: rng.normal(0, 1, shape)),
    "heavy tails": (0.03, lambda rng, shape: rng.standard_t(3, shape)),
    "two modes": (0.03, lambda rng, shape: rng.normal(0, 0.33, shape) - 3 * (rng.random(shape) < 0.3)),
}


def samples(rng, num_pairs, num_first, num_second, kind, second=0.0):
    """Pairs of samples, one log speed per process: the median of blocks that are AR(1), a few of them far too slow."""
    spread, draw = SPREADS[kind]
    made = []
    for num, shift in ((num_first, 0.0), (num_second, second)):
        means = shift + spread * draw(rng, (num_pairs, num)) - 0.1 * (rng.random((num_pairs, num)) < 0.03)
        noise = rng.normal(0, 0.03, (num_pairs, num, NUM_BLOCKS))
        for block in range(1, NUM_BLOCKS):
            noise[..., block] = 0.8 * noise[..., block - 1] + 0.6 * noise[..., block]
        outliers = rng.exponential(0.3, noise.shape) * (rng.random(noise.shape) < 0.03)
        made.append(np.median(means[..., None] + noise - outliers, axis=-1))
    return zip(*made, strict=True)


@pytest.mark.slow
@pytest.mark.parametrize("kind", SPREADS)
@pytest.mark.parametrize(("num_first", "num_second"), [(5, 5), (10, 10), (20, 20), (5, 20)])
def test_of_2000_equal_pairs_at_most_6_percent_are_found_to_differ(kind, num_first, num_second):
    rng = np.random.default_rng([num_first, num_second, *kind.encode()])
    bounds = [difference_interval(a, b) for a, b in samples(rng, 2000, num_first, num_second, kind)]
    assert sum(not low <= 0 <= high for low, high in bounds) <= 120


@pytest.mark.slow
@pytest.mark.parametrize(("num", "power"), [(5, 0.5), (10, 0.8), (20, 0.97)])
def test_a_true_difference_of_5_percent_is_found(num, power):
    rng = np.random.default_rng(num)
    detected = [difference_interval(a, b)[1] < 0 for a, b in samples(rng, 500, num, num, "even", second=math.log(0.95))]
    assert sum(detected) / len(detected) >= power


def test_the_interval_is_that_of_a_t_test_where_the_spread_is_even():
    rng = np.random.default_rng(3)
    a, b = rng.normal(0, 1, 40), rng.normal(0, 1, 40)
    low, high = difference_interval(a, b)
    expected = 1.99 * math.sqrt((a.var(ddof=1) + b.var(ddof=1)) / 40)
    assert low == pytest.approx(b.mean() - a.mean() - expected, rel=0.1)
    assert high == pytest.approx(b.mean() - a.mean() + expected, rel=0.1)
    assert difference_interval(a, b) == (low, high)  # on every call
