"""Blocks on inputs that were fed before and on others, on a clock of the tests'."""

import random
from itertools import chain, repeat

import pytest

from accelbench.measuring.promises import NUM_AGAIN, NUM_ROUNDS, TRIES, replay


class Unseen(str):
    """A batch whose copy has been fed."""

    def __deepcopy__(self, memo):
        return "fed"


def run(seconds, unseen=lambda: Unseen("unseen"), **more):
    """The replay, its defects, and the batches in their order."""
    order = []

    def noted(batches):
        order.append(batches[0])
        return seconds(batches)

    found = replay(lambda: "fed", unseen, noted, **{"steps_s": [1.0], "on_host": False, **more})
    return found, list(found.defects()), order


def ran(ratios, **more):
    left = iter(ratios)
    return run(lambda batches: next(left) if batches[0] == "unseen" else 1.0, **more)


@pytest.mark.parametrize("ratios", [[1.05], [3.0, 1.2, 0.9]])
def test_a_round_that_says_the_opposite_ends_it(ratios):
    found, defects, order = ran(ratios)
    assert (found.ratios, defects) == (ratios, [])
    assert sorted(order[:2]) == ["fed", "unseen"]


def test_kept_results_are_a_defect_once_all_rounds_say_so():
    _, defects, order = ran([1.5] * (NUM_ROUNDS + TRIES * NUM_AGAIN))
    told = "steps take 1.50 times as long with inputs that were never fed: results of earlier inputs are kept"
    assert defects == [told]
    assert order[:4] == ["unseen", "fed", "fed", "unseen"]  # so that neither is always the first one


@pytest.mark.parametrize(
    ("ratios", "found_ratio", "expected"),
    [
        ([2.1], 1.05, ["unseen"]),
        ([3.0, 2.1], 1.05, ["unseen"] * 2),  # the first one was disturbed
        ([3.0, 3.0, 1.0], 1.0, ["unseen"] * 3 + ["fed"]),
    ],
)
def test_a_long_step_is_first_compared_with_most_that_were_measured(ratios, found_ratio, expected):
    found, _, order = ran(ratios, on_host=True, steps_s=[*[1.0] * 8, 2.0, 9.0])
    assert (found.ratios, found.num_unseen, order) == ([found_ratio], len(ratios), expected)


def test_steps_whose_work_depends_on_their_inputs_keep_nothing():
    found, defects, _ = run(lambda batches: 1.0 if batches == ["fed"] else 1.5, unseen=lambda: "unseen")
    (told,) = found.warnings()
    assert (defects, told[:71]) == ([], "steps take 1.50 times as long with other inputs, and as long again with")


def test_other_programs_beside_all_blocks_that_are_fed_once_more_accuse_nothing():
    left = chain([1.5] * NUM_ROUNDS, [3.0, 1.5] * NUM_AGAIN, repeat(1.5))
    found, defects, _ = run(lambda batches: 1.0 if batches == ["fed"] else next(left), unseen=lambda: "unseen")
    assert (len(found.first_s), defects) == (2 * NUM_AGAIN, [])


def test_a_block_that_was_disturbed_is_no_reason():
    left = chain([2.0, 2.0, 3.0, 100.0, 2.5, 2.0, 2.2, 50.0, 1.3], repeat(2.0))  # beside fed ones that took as long
    fed = chain([1.5, 1.2, 1.25, 9.0, 1.3, 1.4, 1.3, 3.0, 1.15], repeat(1.2))
    found, defects, _ = run(lambda batches: next(fed if batches == ["fed"] else left))
    assert min(found.ratios) > 1.1
    assert len(defects) == 1
    found.fed_s[-1], found.unseen_s[-1] = 1.2, 1.3
    assert list(found.defects()) == []


@pytest.mark.parametrize(
    ("fed_s", "turn_s", "share", "is_kept"),
    [(0.0003, 0.01, 0.25, True), (0.005, 0.01, 0.25, False), (0.005, 0.02, 0.6, False)],
)
def test_short_blocks_beside_other_programs_are_judged_by_their_shortest(fed_s, turn_s, share, is_kept):
    draw = random.Random(1)

    def seconds(batches):  # a share of the blocks takes as long as another program's turns
        took_s = fed_s if batches == ["fed"] else 0.005
        while draw.random() < share:
            took_s += draw.uniform(0.0, 2 * turn_s)
        return took_s

    found = [run(seconds) for _ in range(500)]
    if is_kept:
        assert sum(defects != [] for _, defects, _ in found) >= 485
    else:
        assert not any(replayed.differs for replayed, *_ in found)
