"""Blocks on inputs that were fed before and on others, on a clock of the tests'."""

import pytest

from accelbench.measuring.replay import MAX_BATCHES, NUM_ROUNDS, num_batches, replay


def ran(ratios, known_s=None):
    left = iter(ratios)
    order = []

    def seconds(batches):
        order.append(batches[0])
        return next(left) if batches[0] == "unseen" else 1.0

    found = replay(lambda: ["fed"], lambda: ["unseen"], seconds, known_s)
    return found, order


def test_a_step_that_keeps_nothing_is_seen_at_once():
    found, order = ran([1.05])
    assert (found.ratios, found.defect()) == ([1.05], None)
    assert sorted(order) == ["fed", "unseen"]


def test_one_round_alone_says_nothing():
    found, _ = ran([3.0, 1.2, 0.9])
    assert (found.ratios, found.defect()) == ([3.0, 1.2, 0.9], None)


def test_kept_results_are_a_defect_once_all_rounds_say_so():
    found, order = ran([1.5] * NUM_ROUNDS)
    assert found.defect() == (
        "steps take 1.50 times as long with inputs that were never fed: results of earlier inputs are kept"
    )
    assert order[:4] == ["unseen", "fed", "fed", "unseen"]  # so that neither is always the first one


def test_a_long_step_is_first_compared_with_what_was_measured():
    found, order = ran([2.1], known_s=2.0)
    assert (found.ratios, order) == ([1.05], ["unseen"])
    found, order = ran([3.0, 1.0], known_s=2.0)
    assert (found.ratios, order) == ([1.5, 1.0], ["unseen", "fed", "unseen"])


@pytest.mark.parametrize(("step_s", "num"), [(1.0, 1), (0.001, 5), (1e-9, MAX_BATCHES), (0.0, MAX_BATCHES)])
def test_blocks_of_short_steps_have_many(step_s, num):
    assert num_batches(step_s) == num
