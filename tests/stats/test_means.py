from statistics import fmean, stdev

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
    [(FIRST, SECOND), ([0.976, 0.978, 0.977, 0.979], [0.970, 0.974, 0.972]), ([1.0, 2.0], [100.0, 300.0])],
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
