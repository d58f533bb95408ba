import math
import re

import pytest

from accelbench.compare.comparison import difference
from accelbench.compare.sureness import SpeedRatio, Verdict
from compare.conftest import compare


def test_the_ratio_is_of_the_medians_and_of_the_second_over_the_first():
    first = [[100.0, 100.0, 1.0]] * 5
    ratio = compare(first, [[110.0, 110.0, 5000.0]] * 6)
    assert (ratio.num_first, ratio.num_second) == (5, 6)
    assert ratio.ratio == ratio.low == ratio.high == pytest.approx(1.1)
    # One process, 50 times slower than its others, makes A the slower one on average.
    ratio = compare([[100.0]] * 4 + [[2.0]], [[95.0], [96.0], [94.0], [95.0], [95.5]])
    logs = [math.log(value) for value in (ratio.low, ratio.ratio, ratio.high)]
    assert ratio.verdict() == Verdict.cant_tell
    assert logs[1] == pytest.approx((logs[0] + logs[2]) / 2, rel=0.3)  # the interval is that of this estimate
    assert re.fullmatch(r"\+108.0 % \(-\d\d.* % to \+\d.* %\), 5 and 5 processes", difference(ratio))


@pytest.mark.parametrize(
    ("low", "high", "margin", "verdict"),
    [
        *((0.99, 1.01, 0.02, "same"), (1.005, 1.015, 0.02, "same"), (1.005, 1.015, 0.0, "faster")),
        *((0.99, 1.03, 0.02, "can't tell"), (1.01, 1.03, 0.02, "faster"), (0.9, 0.99, 0.02, "slower")),
        *((0.9, 1.0, 0.02, "can't tell"), (1.0, 1.0, 0.0, "can't tell")),
    ],
)
def test_the_verdict_is_the_interval_in_a_word(low, high, margin, verdict):
    ratio = SpeedRatio(num_first=5, num_second=5, ratio=1.0, low=low, high=high)
    assert ratio.verdict(margin) == verdict
