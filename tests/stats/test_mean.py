import pytest
from scipy.stats import t

from accelbench.stats.mean import mean_of


def test_the_interval_is_students():
    values = [10.0, 11.0, 12.5, 9.5, 10.5]
    found = mean_of(values)
    low, high = t.interval(0.95, 4, loc=10.7, scale=found_scale(values))
    assert (found.num, found.mean) == (5, pytest.approx(10.7))
    assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))


def found_scale(values):
    mean = sum(values) / len(values)
    return (sum((v - mean) ** 2 for v in values) / (len(values) - 1) / len(values)) ** 0.5


def test_one_value_has_no_interval():
    assert (mean_of([3.0]).low, mean_of([3.0]).high) == (None, None)


def test_equal_values_have_an_interval_without_width():
    assert (mean_of([2.0, 2.0]).low, mean_of([2.0, 2.0]).high) == (2.0, 2.0)
