"""Against known truths: processes whose real speeds, and how they scatter, are drawn here."""

import math

import numpy as np
import pytest

from accelbench.compare.verdict import Comparison, Verdict, compare, interval

NUM_BLOCKS = 10
# Of processes: (spread of their means, what draws them). Means scatter around 0 as the logs of speeds do.
SPREADS = {
    "even": (0.02, lambda rng, shape: rng.normal(0, 1, shape)),
    "heavy tails": (0.03, lambda rng, shape: rng.standard_t(3, shape)),
    "two modes": (0.03, lambda rng, shape: rng.normal(0, 0.33, shape) - 3 * (rng.random(shape) < 0.3)),
}


def sides(rng, num_pairs, num_first, num_second, kind, second=0.0):
    """Pairs of sides, a log speed per process: medians of blocks that are AR(1), some of them far too slow."""
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


@pytest.mark.parametrize("kind", SPREADS)
@pytest.mark.parametrize(("num_first", "num_second"), [(5, 5), (10, 10), (20, 20), (5, 20)])
def test_of_2000_pairs_that_are_alike_at_most_6_percent_are_told_apart(kind, num_first, num_second):
    rng = np.random.default_rng([num_first, num_second, *kind.encode()])
    bounds = [interval(a, b) for a, b in sides(rng, 2000, num_first, num_second, kind)]
    assert sum(not low <= 0 <= high for low, high in bounds) <= 120


@pytest.mark.parametrize(("num", "power"), [(5, 0.5), (10, 0.8), (20, 0.97)])
def test_a_true_difference_of_5_percent_is_found(num, power):
    rng = np.random.default_rng(num)
    found = [interval(a, b)[1] < 0 for a, b in sides(rng, 500, num, num, "even", second=math.log(0.95))]
    assert sum(found) / len(found) >= power


def test_steps_taken_as_independent_would_raise_far_more_false_alarms():
    """That the process is the unit is what keeps the alarms down: the draws above are no easy ones."""
    rng = np.random.default_rng(0)
    alarms = 0
    for _ in range(200):
        blocks = [rng.normal(rng.normal(0, 0.02, (5, 1)), 0.005, (5, NUM_BLOCKS)).ravel() for _ in range(2)]
        low, high = interval(*blocks)
        alarms += not low <= 0 <= high
    assert alarms > 50


def test_the_interval_is_that_of_a_t_test_where_the_spread_is_even():
    rng = np.random.default_rng(3)
    a, b = rng.normal(0, 1, 40), rng.normal(0, 1, 40)
    low, high = interval(a, b)
    expected = 1.99 * math.sqrt((a.var(ddof=1) + b.var(ddof=1)) / 40)
    assert low == pytest.approx(b.mean() - a.mean() - expected, rel=0.1)
    assert high == pytest.approx(b.mean() - a.mean() + expected, rel=0.1)


def test_equal_records_give_the_same_answer_on_every_day():
    sample = [[100.0 + one] * 3 for one in range(6)]
    assert compare(sample, sample[::-1]) == compare(sample, sample[::-1])


def test_the_ratio_is_of_the_medians_and_of_the_second_over_the_first():
    first = [[100.0, 100.0, 1.0]] * 5
    found = compare(first, [[110.0, 110.0, 5000.0]] * 6)
    assert (found.num_first, found.num_second) == (5, 6)
    assert found.ratio == found.low == found.high == pytest.approx(1.1)


@pytest.mark.parametrize(("num_first", "num_second"), [(4, 9), (9, 4), (1, 1), (0, 5)])
def test_fewer_than_5_processes_a_side_cannot_tell(num_first, num_second):
    found = compare([[1.0]] * num_first, [[9.0]] * num_second)
    assert found == Comparison(num_first=num_first, num_second=num_second)
    assert found.verdict() == Verdict.cant_tell
    assert not found.is_slower_by(0.0)


@pytest.mark.parametrize(
    ("low", "high", "margin", "verdict"),
    [
        (0.99, 1.01, 0.02, "same"),
        (1.005, 1.015, 0.02, "same"),
        (1.005, 1.015, 0.0, "faster"),
        (0.99, 1.03, 0.02, "can't tell"),
        (1.01, 1.03, 0.02, "faster"),
        (0.9, 0.99, 0.02, "slower"),
        (0.9, 1.0, 0.02, "can't tell"),
        (1.0, 1.0, 0.0, "can't tell"),
    ],
)
def test_the_verdict_is_the_interval_in_a_word(low, high, margin, verdict):
    found = Comparison(num_first=5, num_second=5, ratio=1.0, low=low, high=high)
    assert found.verdict(margin) == verdict


@pytest.mark.parametrize(("high", "share", "too_slow"), [(0.94, 0.05, True), (0.96, 0.05, False), (0.99, 0.0, True)])
def test_slower_for_sure_is_the_whole_interval(high, share, too_slow):
    assert Comparison(num_first=5, num_second=5, ratio=0.9, low=0.8, high=high).is_slower_by(share) is too_slow
