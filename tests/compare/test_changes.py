import math

import numpy as np
import pytest

from accelbench.compare.answer import ALPHA, Change, changes
from accelbench.compare.matching import Match
from accelbench.stats.bootstrap import difference_interval
from compare.conftest import process

NUM_CELLS = 300
STEADY = [100.0, 101, 99, 100, 102, 98, 100, 101]
SLOWER = [rate * 0.8 for rate in STEADY]


def noise(dice, spread, num):
    """Logarithms of the speeds of processes, three in a hundred of them a tenth slower."""
    return dice.normal(0, spread, num) - 0.1 * (dice.random(num) < 0.03)


@pytest.mark.slow
@pytest.mark.parametrize("num", [5, 8, 12])
def test_at_most_one_in_twenty_lists_of_equal_cells_names_any_and_a_tenth_is_found(num):
    dice = np.random.default_rng(0)
    num_named = num_found = 0
    for _ in range(60):
        samples = [(noise(dice, each, num), noise(dice, each, num)) for each in dice.uniform(0.005, 0.05, NUM_CELLS)]
        bounds = [difference_interval(*each, 1 - ALPHA / NUM_CELLS) for each in samples]
        num_named += any(not low <= 0 <= high for low, high in bounds)
        slower = noise(dice, 0.01, num), noise(dice, 0.01, num) + math.log(0.9)
        num_found += difference_interval(*slower, 1 - ALPHA / NUM_CELLS)[1] < 0
    assert num_named <= 3 + 3  # three are expected; six or more of sixty would be rare
    assert num_found >= (55 if num > 8 else 40)


def pair(first, second, *, interleaved=True, label="cell"):
    sides = (
        [process(rate, 2 * index) for index, rate in enumerate(first)],
        [process(rate, 2 * index + 1 if interleaved else 40 + index) for index, rate in enumerate(second)],
    )
    return Match(first=sides[0], second=sides[1], label=label)


def test_each_cell_has_its_verdict_those_that_changed_first():
    apart = pair(STEADY, SLOWER, interleaved=False, label="apart")
    few = pair(STEADY[:3], SLOWER[:3], label="few")
    found = changes([pair(STEADY, STEADY[::-1], label="equal"), few, pair(STEADY, SLOWER, label="worse"), apart])
    assert [(each.label, each.change, each.why) for each in found] == [
        ("worse", Change.slower, ""),
        ("equal", Change.none_found, ""),
        ("apart", Change.cant_tell, "not interleaved"),
        ("few", Change.cant_tell, "it takes 5 processes a side"),
    ]
    assert found[0].ratio == pytest.approx(0.8)
    assert found[0].low < 0.8 < found[0].high < 0.85
    assert changes([apart], anyway=True)[0].change == Change.slower


def test_the_more_cells_there_are_the_wider_is_the_interval_of_each():
    equal = [pair(STEADY, STEADY[::-1]) for _ in range(300)]
    (alone,), (first, *_) = changes([pair(STEADY, SLOWER)]), changes([pair(STEADY, SLOWER), *equal])
    assert first.low < alone.low < alone.high < first.high < 1
