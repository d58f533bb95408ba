import math

import numpy as np
import pytest

from accelbench.compare.pairs import Pair
from accelbench.compare.regressions import Change, changes, holm, welch
from compare.conftest import process

NUM_CELLS = 300
STEADY = [100.0, 101, 99, 100, 102, 98, 100, 101]
SLOWER = [rate * 0.8 for rate in STEADY]


def noise(dice, spread, num):
    """Logarithms of the speeds of processes, three in a hundred of them a tenth slower."""
    return dice.normal(0, spread, num) - 0.1 * (dice.random(num) < 0.03)


def lists(num_lists, num, changed=0.0, seed=0):
    """How many cells each list of `NUM_CELLS` names, whose spreads differ; the first one changed."""
    dice = np.random.default_rng(seed)
    found = []
    for _ in range(num_lists):
        spreads = dice.uniform(0.005, 0.05, NUM_CELLS)
        samples = [(noise(dice, spread, num), noise(dice, spread, num)) for spread in spreads]
        samples[0] = noise(dice, 0.01, num), noise(dice, 0.01, num) + math.log1p(-changed)
        found.append(holm([test.p for test in welch(samples)]))
    return np.array(found)


@pytest.mark.parametrize("num", [5, 8, 12])
def test_at_most_one_in_twenty_lists_of_equal_cells_names_any(num):
    assert lists(60, num).any(axis=1).sum() <= 3 + 3  # three are expected; six or more of sixty would be rare


def test_ten_steps_of_one_percent_are_found_as_one_of_ten():
    named = lists(30, 10, changed=1 - 0.99**10)
    assert named[:, 0].sum() >= 27
    assert named[:, 1:].any(axis=1).sum() <= 4


def pair(first, second, *, interleaved=True, label="cell"):
    sides = (
        [process(rate, 2 * index) for index, rate in enumerate(first)],
        [process(rate, 2 * index + 1 if interleaved else 40 + index) for index, rate in enumerate(second)],
    )
    return Pair(first=sides[0], second=sides[1], label=label)


def test_each_cell_has_its_verdict_those_that_changed_first():
    found = changes(
        [
            pair(STEADY, STEADY[::-1], label="equal"),
            pair(STEADY[:3], SLOWER[:3], label="few"),
            pair(STEADY, SLOWER, label="worse"),
            pair(STEADY, SLOWER, interleaved=False, label="apart"),
        ]
    )
    assert [(each.label, each.change, each.why) for each in found] == [
        ("worse", Change.slower, ""),
        ("equal", Change.none_found, ""),
        ("few", Change.cant_tell, "it takes 5 processes a side"),
        ("apart", Change.cant_tell, "not interleaved"),
    ]
    assert found[0].ratio == pytest.approx(0.8)
    assert found[0].low < 0.8 < found[0].high < 0.85


def test_apart_is_tested_anyway_and_five_processes_of_one_cell_are_too_few():
    (apart,) = changes([pair(STEADY, SLOWER, interleaved=False)], anyway=True)
    assert apart.change == Change.slower
    (few,) = changes([pair(STEADY[:5], SLOWER[:5])])
    assert (few.change, "8 processes a side" in few.why) == (Change.cant_tell, True)


def test_holm_stops_at_the_first_that_is_not_small_enough():
    assert holm([0.001, 0.04, 0.02]) == [True, True, True]
    assert holm([0.001, 0.04, 0.03]) == [True, False, False]
    assert holm([]) == []
