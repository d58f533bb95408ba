"""Races of simulated cells, whose true speeds are known; the real order and the real rules, on a clock of their own."""

import math

import numpy as np
import pytest

from accelbench.search.race import KEPT_SHARE, MIN_RUNS, Candidate, Goal, Outcome, Race

COST_S = {False: 0.5, True: 2.5}


class World(Race):
    """Cells of known speeds; each process differs by `noise` from others of its cell."""

    def __init__(self, speeds, seed=0, noise=0.02, budget_s=600.0, limit=math.inf):
        goal = Goal(by="throughput", latency_ms=limit, margin=0.02, budget_s=budget_s)
        super().__init__([Candidate(i) for i in range(len(speeds))], goal)
        draw, self.now_s = np.random.default_rng(seed), 0.0
        for candidate, is_full in self.run():
            is_first = candidate.outcome == Outcome.untried and candidate.item
            end_s = budget_s * (1 - KEPT_SHARE if is_first else 1)
            if self.now_s + COST_S[is_full] > end_s:
                if is_first:
                    continue
                break
            self.now_s += COST_S[is_full]
            speed = speeds[candidate.item] * math.exp(draw.normal(0, noise))
            self.add(candidate, is_full, speed if speed > 0 else None, speed)
        self.rest_s = budget_s - self.now_s

    def outcomes(self):
        return [candidate.outcome for candidate in self.candidates]


def test_the_fastest_is_found_in_nineteen_of_twenty_searches():
    num_found = num_decided = 0
    for seed in range(100):
        order = np.random.default_rng(seed).permutation(24)
        race = World(100 * 1.1**order, seed)
        num_found += race.leader.item == int(order.argmax())
        num_decided += race.is_decided
    assert min(num_found, num_decided) >= 95


def test_a_few_cells_get_three_processes_before_any_drops_out_and_time_is_left():
    race = World([100.0, 50.0, 40.0, 10.0, 1.0])
    assert race.leader.item == 0
    assert race.ratio.low > 1.9
    assert race.outcomes() == [Outcome.left] * 2 + [Outcome.dropped] * 3
    assert [len(candidate.short) for candidate in race.candidates[3:]] == [MIN_RUNS] * 2
    assert race.rest_s > 500
    equal = World([100.0, 100.0], noise=0.01)  # decided once the interval is within the margin
    assert (equal.is_decided, equal.ratio.high < 1.02) == (True, True)


def test_the_budget_ends_a_race_and_cells_over_the_limit_and_failed_ones_leave_it():
    race = World(np.linspace(100, 200, 100), budget_s=40.0)
    assert 0 <= race.rest_s < COST_S[True]
    assert race.outcomes().count(Outcome.untried) == pytest.approx(52, abs=2)
    assert not race.is_decided
    race = World([100.0, 50.0, 60.0, -1.0], limit=80.0)
    assert race.outcomes() == [Outcome.over, Outcome.left, Outcome.left, Outcome.failed]
    assert race.leader.item == 2
