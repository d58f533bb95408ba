import pytest

from accelbench.compare.comparison import Change, changes
from accelbench.compare.matching import Match
from compare.conftest import process

STEADY = [100.0, 101, 99, 100, 102, 98, 100, 101]
SLOWER = [rate * 0.8 for rate in STEADY]


def pair(first, second, *, interleaved=True, label="cell"):
    sides = (
        [process(rate, 2 * index) for index, rate in enumerate(first)],
        [process(rate, 2 * index + 1 if interleaved else 40 + index) for index, rate in enumerate(second)],
    )
    return Match(first=sides[0], second=sides[1], label=label)


def test_each_cell_has_its_verdict_those_that_changed_first():
    apart = pair(STEADY, SLOWER, interleaved=False, label="apart")
    few = pair(STEADY[:3], SLOWER[:3], label="few")
    cells = changes([pair(STEADY, STEADY[::-1], label="equal"), few, pair(STEADY, SLOWER, label="worse"), apart])
    assert [(cell.label, cell.change, cell.why) for cell in cells] == [
        ("worse", Change.slower, ""),
        ("equal", Change.none_found, ""),
        ("apart", Change.cant_tell, "not interleaved"),
        ("few", Change.cant_tell, "it takes 5 processes a side"),
    ]
    assert cells[0].ratio == pytest.approx(0.8)
    assert cells[0].low < 0.8 < cells[0].high < 0.85
    assert changes([apart], anyway=True)[0].change == Change.slower


def test_the_more_cells_there_are_the_wider_is_the_interval_of_each():
    equal = [pair(STEADY, STEADY[::-1]) for _ in range(300)]
    (alone,), (first, *_) = changes([pair(STEADY, SLOWER)]), changes([pair(STEADY, SLOWER), *equal])
    assert first.low < alone.low < alone.high < first.high < 1
