"""Races of simulated cells, whose true speeds are known; the real order and the real rules, on a clock of their own."""

import math

import numpy as np

from accelbench.search.race import MIN_RUNS, Candidate, Goal, Outcome, Race

COST_S = {False: 0.5, True: 2.5}


class World(Race):
    """Cells of known speeds; each process differs by `noise` from others of its cell."""

    def __init__(self, speeds, seed=0, noise=0.02):
        goal = Goal(by="throughput", latency_ms=None, margin=0.02, budget_s=600.0)
        super().__init__([Candidate(i) for i in range(len(speeds))], goal)
        draw, self.rest_s = np.random.default_rng(seed), goal.budget_s
        for candidate, is_full in self.run():
            if self.rest_s < COST_S[is_full]:
                break
            self.rest_s -= COST_S[is_full]
            speed = speeds[candidate.item] * math.exp(draw.normal(0, noise))
            self.add(candidate, is_full, speed, 1.0)

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
