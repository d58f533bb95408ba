from random import Random
from statistics import fmean

import pytest
from scipy.stats import t as student
from scipy.stats import ttest_ind

from accelbench.stats.means import MeanDifference, mean_difference, mean_of, share_difference

# A textbook example of unequal variances: t = -2.46 at 25.0 degrees of freedom.
FIRST = [27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1, 21.9, 22.6, 23.1, 19.6, 19.0, 21.7, 21.4]
SECOND = [27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0, 24.8, 20.2, 21.9, 22.1, 22.9, 20.5, 24.4]


def test_the_interval_of_a_mean_is_students():
    found = mean_of(FIRST)
    deviation = sum((value - fmean(FIRST)) ** 2 for value in FIRST) / (len(FIRST) - 1)
    wanted = student.interval(0.95, len(FIRST) - 1, loc=fmean(FIRST), scale=(deviation / len(FIRST)) ** 0.5)
    assert (found.num, found.mean, (found.low, found.high)) == (15, fmean(FIRST), pytest.approx(wanted))
    assert (mean_of([3.0]).low, mean_of([3.0]).high) == (None, None)
    assert (mean_of([2.0, 2.0]).low, mean_of([2.0, 2.0]).high) == (2.0, 2.0)


def test_a_known_example():
    found = mean_difference(FIRST, SECOND)
    half = (found.high - found.low) / 2
    assert found.mean / half == pytest.approx(-2.46 / 2.0595, abs=0.005)  # Student's quantile at 25 degrees


@pytest.mark.parametrize("confidence", [0.9, 0.95])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (FIRST, SECOND),
        ([0.976, 0.978, 0.977, 0.979], [0.970, 0.974, 0.972]),
        ([0.97, 0.971, 0.97], [0.96, 0.97, 0.98]),
        ([1.0, 2.0], [100.0, 300.0]),
    ],
)
def test_the_interval_of_a_difference_is_welchs(first, second, confidence):
    found = mean_difference(first, second, confidence)
    wanted = ttest_ind(first, second, equal_var=False).confidence_interval(confidence)
    assert (found.low, found.high) == pytest.approx((wanted.low, wanted.high))


def test_samples_that_do_not_vary_have_bounds_at_their_difference():
    assert mean_difference([0.97] * 3, [0.97] * 3) == MeanDifference(0.0, 0.0, 0.0)
    assert mean_difference([2.0] * 3, [1.5] * 4) == MeanDifference(0.5, 0.5, 0.5)


def test_an_interval_holds_the_observed_difference_and_narrows_with_the_samples():
    widths = []
    for scale in (1, 10, 100):
        low, high = share_difference(100 * scale, 4 * scale, 9 * scale)
        assert low < -0.05 < high
        widths.append(high - low)
    assert widths == sorted(widths, reverse=True)
    assert widths[0] / widths[2] == pytest.approx(10, rel=0.1)


def test_equal_answers_still_leave_an_interval():
    low, high = share_difference(1000, 0, 0)
    assert low < 0 < high
    assert high < 0.003


@pytest.mark.slow
def test_it_covers_the_true_difference_in_about_19_of_20_samples():
    drawn = Random(1)
    covered = 0
    for _ in range(1000):
        kinds = drawn.choices("fsb", weights=[0.03, 0.08, 0.89], k=400)
        low, high = share_difference(400, kinds.count("f"), kinds.count("s"))
        covered += low <= -0.05 <= high
    assert 930 <= covered <= 975
