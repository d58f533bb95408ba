import random

import pytest

from accelbench.stats.paired import share_difference


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


def test_it_covers_the_true_difference_in_about_19_of_20_samples():
    drawn = random.Random(1)
    covered = 0
    for _ in range(1000):
        kinds = drawn.choices("fsb", weights=[0.03, 0.08, 0.89], k=400)
        low, high = share_difference(400, kinds.count("f"), kinds.count("s"))
        covered += low <= -0.05 <= high
    assert 930 <= covered <= 975
