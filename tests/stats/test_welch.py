from statistics import fmean, variance

import pytest
from scipy.stats import t as student

from accelbench.stats.welch import MeanDifference, mean_difference

# A textbook example of unequal variances: t = -2.46 at 25.0 degrees of freedom.
FIRST = [27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1, 21.9, 22.6, 23.1, 19.6, 19.0, 21.7, 21.4]
SECOND = [27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0, 24.8, 20.2, 21.9, 22.1, 22.9, 20.5, 24.4]


def by_hand(first, second, confidence):
    """Welch's formula with the degrees of freedom of Welch and Satterthwaite."""
    parts = [variance(values) / len(values) for values in (first, second)]
    freedom = sum(parts) ** 2 / sum(
        part**2 / (len(values) - 1) for part, values in zip(parts, (first, second), strict=True)
    )
    half = float(student.ppf((1 + confidence) / 2, freedom)) * sum(parts) ** 0.5
    mean = fmean(first) - fmean(second)
    return mean, mean - half, mean + half


def test_a_known_example():
    found = mean_difference(FIRST, SECOND)
    half = (found.high - found.low) / 2
    assert found.mean == pytest.approx(fmean(FIRST) - fmean(SECOND))
    assert found.mean / half == pytest.approx(-2.46 / 2.0595, abs=0.005)  # Student's quantile at 25 degrees


@pytest.mark.parametrize("confidence", [0.9, 0.95])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (FIRST, SECOND),
        ([0.976, 0.978, 0.977, 0.979], [0.970, 0.974, 0.972]),
        ([0.97, 0.97, 0.97], [0.96, 0.97, 0.98]),  # one sample does not vary
        ([1.0, 2.0], [100.0, 300.0]),
    ],
)
def test_the_interval_is_that_of_the_formula(first, second, confidence):
    found = mean_difference(first, second, confidence)
    assert (found.mean, found.low, found.high) == pytest.approx(by_hand(first, second, confidence))


def test_samples_that_do_not_vary_have_bounds_at_their_difference():
    assert mean_difference([0.97] * 3, [0.97] * 3) == MeanDifference(0.0, 0.0, 0.0)
    assert mean_difference([2.0] * 3, [1.5] * 4) == MeanDifference(0.5, 0.5, 0.5)
