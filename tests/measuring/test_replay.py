"""Blocks on inputs that were fed before and on others, on a clock of the tests'."""

import itertools
import random

import pytest

from accelbench.measuring.replay import MAX_BATCHES, NUM_AGAIN, NUM_ROUNDS, num_batches, replay


class Unseen(str):
    """A batch whose copy has been fed."""

    def __deepcopy__(self, memo):
        return "fed"


def ran(ratios, known_s=None, first_s=None):
    left = iter(ratios)
    order = []

    def seconds(batches):
        order.append(batches[0])
        return next(left) if batches[0] == "unseen" else 1.0

    found = replay(lambda: ["fed"], lambda: [Unseen("unseen")], seconds, known_s, first_s)
    return found, order


def test_a_step_that_keeps_nothing_is_seen_at_once():
    found, order = ran([1.05])
    assert (found.ratios, found.defect()) == ([1.05], None)
    assert sorted(order) == ["fed", "unseen"]


def test_one_round_alone_says_nothing():
    found, _ = ran([3.0, 1.2, 0.9])
    assert (found.ratios, found.defect()) == ([3.0, 1.2, 0.9], None)


def test_kept_results_are_a_defect_once_all_rounds_say_so():
    found, order = ran([1.5] * (NUM_ROUNDS + NUM_AGAIN))
    assert found.defect() == (
        "steps take 1.50 times as long with inputs that were never fed: results of earlier inputs are kept"
    )
    assert order[:4] == ["unseen", "fed", "fed", "unseen"]  # so that neither is always the first one


def test_a_long_step_is_first_compared_with_what_was_measured():
    found, order = ran([2.1], known_s=2.0)
    assert (found.ratios, order) == ([1.05], ["unseen"])
    found, order = ran([3.0, 2.1], known_s=2.0)  # the first one was disturbed
    assert (found.ratios, order) == ([1.05], ["unseen", "unseen"])
    found, order = ran([3.0, 3.0, 1.0], known_s=2.0)
    assert (found.ratios, order) == ([1.0], ["unseen", "unseen", "unseen", "fed"])


def test_a_step_that_has_run_on_unseen_inputs_is_the_first_one():
    found, order = ran([], known_s=2.0, first_s=2.1)
    assert (found.ratios, found.num_unseen, order) == ([1.05], 1, [])
    found, order = ran([2.1], known_s=2.0, first_s=3.0)
    assert (found.ratios, found.num_unseen, order) == ([1.05], 2, ["unseen"])


def test_steps_whose_work_depends_on_their_inputs_keep_nothing():
    found = replay(lambda: ["fed"], lambda: ["unseen"], lambda batches: 1.0 if batches == ["fed"] else 1.5)
    assert found.defect() is None
    assert found.warning().startswith(
        "steps take 1.50 times as long with other inputs, and as long again with the same"
    )


def test_a_block_that_was_disturbed_is_no_reason():
    left = iter([2.0, 2.0, 3.0, 100.0, 2.5, 2.0, 2.2, 50.0, 1.3])  # beside fed ones that took as long, and less
    fed = iter([1.5, 1.2, 1.25, 9.0, 1.3, 1.4, 1.3, 3.0, 1.15])
    left, fed = itertools.chain(left, itertools.repeat(2.0)), itertools.chain(fed, itertools.repeat(1.2))

    def seconds(batches):
        return next(fed if batches == ["fed"] else left)

    found = replay(lambda: ["fed"], lambda: [Unseen("unseen")], seconds)
    assert min(found.ratios) > 1.1
    assert found.defect() is not None
    found.fed_s[-1], found.unseen_s[-1] = 1.2, 1.3
    assert found.defect() is None


def beside_load(fed_s, unseen_s, share):
    """A round's blocks, of which a share takes as long as another program's turn."""
    draw = random.Random(1)

    def seconds(batches):
        took_s = fed_s if batches == ["fed"] else unseen_s
        return took_s + (0.01 if draw.random() < share else 0.0)

    return [replay(lambda: ["fed"], lambda: [Unseen("unseen")], seconds).defect() is not None for _ in range(200)]


def test_short_blocks_beside_other_programs_are_judged_by_their_shortest():
    assert sum(beside_load(0.0003, 0.005, 0.25)) >= 195  # kept results
    assert sum(beside_load(0.005, 0.005, 0.25)) == 0  # sound code


@pytest.mark.parametrize(("step_s", "num"), [(1.0, 1), (0.001, 5), (1e-9, MAX_BATCHES), (0.0, MAX_BATCHES)])
def test_blocks_of_short_steps_have_many(step_s, num):
    assert num_batches(step_s) == num
