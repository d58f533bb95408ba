"""The search for a slower commit, among simulated ones with the noise that was seen on two cores."""

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest

from accelbench.compare.commits import MOST, State, half_of, judged, next_commit, search

NUM, SLOWED = 40, 0.1
NUM_BLOCKS = 12


class Machine:
    """Processes with the noise that was seen on two cores: between processes, within them, drift and slow bursts."""

    def __init__(self, seed, between=0.02, within=0.02, drift=0.03, bursts=0.03):
        self.dice = np.random.default_rng(seed)
        self.between, self.within, self.bursts = between, within, bursts
        self.drift, self.walk = drift, 0.0

    def process(self, slowed=0.0):
        self.walk += self.dice.normal(0, self.drift / 20)
        level = self.walk + self.dice.normal(0, self.between) + np.log(1 - slowed)
        if self.dice.random() < self.bursts:
            level -= 0.1
        return list(1000 * np.exp(level + self.dice.normal(0, self.within, NUM_BLOCKS)))


def told(machine, slowed, half=None):
    """What rounds of a commit that is slower by this share say, as `Bisection` measures them."""
    sides, at = ([], []), 0
    for _ in range(MOST):
        for is_second in machine.dice.permutation(2):
            at += 1
            rates = machine.process(slowed if is_second else 0.0)
            sides[is_second].append(SimpleNamespace(rates=rates, started_at=f"{at:03}", environment={}))
        state, found = judged(*sides, half)
        if state is not None:
            break
    return state or State.cant_tell, found


def outcome(seed, slowed=SLOWED):
    """Whether a search among 40 commits with a slow-down at a random one names it, another one, or none."""
    machine = Machine(seed)
    culprit = int(machine.dice.integers(NUM))
    state, found = told(machine, slowed)
    if state != State.slower:
        return "no slow-down"

    def state_of(at, left):
        return told(machine, slowed * (at >= culprit), half_of(found))[0]

    low, high = search(NUM, state_of)
    proven = high - low == 1 and told(machine, slowed * (low < culprit <= high), half_of(found))[0] == State.slower
    if not proven:
        return "can't tell" if low < culprit <= high else "wrong, unproven"
    return "right" if high == culprit else "wrong"


def check(seeds):
    found = Counter(map(outcome, seeds))
    assert found["right"] >= 0.95 * len(seeds), found
    assert not found["wrong"], found


def test_a_slow_down_of_a_tenth_among_40_commits_is_found():
    check(range(20))


@pytest.mark.slow
def test_a_slow_down_of_a_tenth_is_found_in_nearly_all_of_200_searches_and_none_names_another_commit():
    check(range(100, 300))


@pytest.mark.slow
def test_a_slow_down_within_the_spread_of_processes_is_found_or_can_not_be_told():
    found = Counter(outcome(seed, slowed=0.02) for seed in range(100, 300))
    assert not found["wrong"], found


def test_equal_ends_are_no_slow_down():
    assert all(told(Machine(seed), 0.0)[0] != State.slower for seed in range(5))


@pytest.mark.parametrize("culprit", [0, 1, 17, 38, 39])
@pytest.mark.parametrize("broken", [set(), {19, 20}, set(range(10, 30)), set(range(0, 39, 2))])
def test_commits_that_do_not_run_are_skipped_and_what_is_left_is_between_the_ends(culprit, broken):
    broken, asked = broken - {NUM - 1}, []

    def state_of(at, left):
        asked.append(at)
        return State.broken if at in broken else State.slower if at >= culprit else State.not_slower

    low, high = search(NUM, state_of)
    assert low < culprit <= high
    assert set(range(low + 1, high)) <= broken
    assert len(asked) == len(set(asked)) <= 12 + len(set(asked) & broken)
    assert search(NUM, lambda at, left: None) == (-1, NUM - 1)


def test_the_search_goes_on_far_from_a_commit_that_does_not_run():
    assert next_commit({}, NUM) == 19
    assert next_commit({19: State.broken}, NUM) in (9, 29)
