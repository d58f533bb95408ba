import math
from statistics import fmean, stdev

import numpy as np
import pytest
import scipy

from accelbench.stats.means import mean_difference_interval, mean_interval, share_difference

FIRST = [27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1, 21.9, 22.6, 23.1, 19.6, 19.0, 21.7, 21.4]
SECOND = [27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0, 24.8, 20.2, 21.9, 22.1, 22.9, 20.5, 24.4]


def test_the_interval_of_a_mean_is_students():
    wanted = scipy.stats.t.interval(0.95, len(FIRST) - 1, loc=fmean(FIRST), scale=stdev(FIRST) / len(FIRST) ** 0.5)
    assert mean_interval(FIRST) == pytest.approx(wanted)
    assert mean_interval([2.0, 2.0]) == (2.0, 2.0)


@pytest.mark.parametrize(
    ("first", "second"),
    [(FIRST, SECOND), ([0.976, 0.978, 0.977], [0.970, 0.974, 0.972]), ([1.0, 2.0], [100.0, 300.0])],
)
def test_the_interval_of_a_difference_is_welchs(first, second):
    wanted = scipy.stats.ttest_ind(first, second, equal_var=False).confidence_interval(0.95)
    assert mean_difference_interval(first, second) == pytest.approx((wanted.low, wanted.high))
    assert mean_difference_interval([2.0] * 3, [1.5] * 4) == (0.5, 0.5)


def test_an_interval_of_shares_holds_the_observed_difference_and_narrows_with_the_samples():
    bounds = [share_difference(100 * scale, 4 * scale, 9 * scale) for scale in (1, 10, 100)]
    assert all(low < -0.05 < high for low, high in bounds)
    widths = [high - low for low, high in bounds]
    assert widths[0] / widths[2] == pytest.approx(10, rel=0.1)
    low, high = share_difference(1000, 0, 0)  # equal answers still leave one
    assert low < 0 < high < 0.003


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
    bounds = [mean_difference_interval(a, b) for a, b in samples(rng, 2000, num_first, num_second, kind)]
    assert sum(not low <= 0 <= high for low, high in bounds) <= 120


@pytest.mark.slow
@pytest.mark.parametrize(("num", "power"), [(5, 0.5), (10, 0.8), (20, 0.97)])
def test_a_true_difference_of_5_percent_is_found(num, power):
    rng = np.random.default_rng(num)
    detected = [
        mean_difference_interval(b, a)[1] < 0 for a, b in samples(rng, 500, num, num, "even", second=math.log(0.95))
    ]
    assert sum(detected) / len(detected) >= power
