"""Races of simulated cells, whose true speeds are known; the real order and the real rules, on a clock of their own."""

import math
from dataclasses import dataclass

import numpy as np
import pytest

from accelbench.search.race import MIN_LEAD, MIN_LONG, Race, Sample, Schedule

MARGIN = 0.02
NUM_CELLS = 500
FORK_S = 0.25  # of each process, besides its steps
FULL_S, FULL_STEPS = 2.3, 15  # a full window; see `schema.cell.Window`
SHORT_S, SHORT_STEPS = 0.2, 2  # a short one; see `search.goal.SHORT`


@dataclass
class World:
    """Cells of known speeds on a machine with other load.

    A process differs by 2 to 4 % from others of its cell, its steps by 1 to 3 %, and one in twenty processes is slowed
    down by 10 to 50 %.
    """

    speeds: np.ndarray  # logarithms
    steps_s: np.ndarray
    seed: int
    share: float = 0.2  # of the time in which each cell is measured once in full

    def __post_init__(self):
        self.draw = np.random.default_rng(self.seed)
        self.between = self.draw.uniform(0.02, 0.04, len(self.speeds))
        self.within = self.draw.uniform(0.01, 0.03, len(self.speeds))
        full_s = np.maximum(FULL_S, FULL_STEPS * self.steps_s) + FORK_S
        short_s = np.maximum(SHORT_S, SHORT_STEPS * self.steps_s) + FORK_S
        self.cost_s = {True: full_s.tolist(), False: short_s.tolist()}
        self.time_s = self.left_s = self.share * float(full_s.sum())
        self.order = []

    def measure(self, i, is_long, left_s):
        self.left_s -= self.cost_s[is_long][i]
        self.order.append(i)
        score = self.speeds[i] + self.draw.normal(0, self.between[i])
        score += self.draw.normal(0, self.within[i] / (3 if is_long else 1))
        burst = math.log(self.draw.uniform(1.1, 1.5)) if self.draw.random() < 0.05 else 0.0
        return Sample(float(score) - burst, limited=-float(score))

    def race(self, race):
        cost_s = lambda i, is_long: self.cost_s[is_long][i]  # noqa: E731
        Schedule(race, self.measure, cost_s, lambda: self.left_s, self.time_s, seed=self.seed).run()
        return race


def grid(seed, num=NUM_CELLS):
    """Step times of 1 ms to 2 s, log-uniform; the shortest step is the fastest."""
    steps_s = np.exp(np.random.default_rng(seed).uniform(math.log(0.001), math.log(2), num))
    return World(-np.log(steps_s), steps_s, seed)


def ended(world):
    """Whether the best cell, or one within the margin, was found; whether what is said is true."""
    (ranking,) = world.race(Race([0] * len(world.speeds), MARGIN)).rankings.values()
    assert world.left_s >= 0
    assert world.left_s < 0.05 * world.time_s or ranking.margin <= MARGIN
    behind = world.speeds.max() - world.speeds[ranking.leader]
    return behind <= math.log1p(MARGIN), behind <= math.log1p(ranking.margin) + 1e-9


def check_races(num, worlds, right=0.95):
    found, true = np.mean([ended(worlds(seed)) for seed in range(num)], axis=0)
    # Two standard errors of a share of `num` races.
    allowed = 2 * math.sqrt(0.05 * 0.95 / num)
    assert found >= right - allowed, found
    assert true >= 0.95, true


def batches(seed):
    """The batch decides the speed too: large batches, and expensive ones, may be the best."""
    world = grid(seed)
    world.speeds = world.speeds + np.log(np.random.default_rng(seed + 10**6).choice([1, 8, 32, 128], NUM_CELLS))
    return world


@pytest.mark.slow
@pytest.mark.parametrize("worlds", [grid, batches])
def test_the_best_of_500_is_found_in_a_fifth_of_the_time(worlds):
    check_races(1000, worlds)


def test_a_few_cells_are_decided_to_the_margin_with_time_left():
    world = World(np.log([100.0, 50.0, 40.0, 10.0, 1.0]), np.full(5, 0.01), seed=1, share=20.0)
    race = world.race(Race([0] * 5, MARGIN))
    (ranking,) = race.rankings.values()
    assert (ranking.leader, ranking.rivals) == (0, [])
    assert ranking.margin == 0.0
    assert world.left_s > 0.5 * world.time_s
    assert race.candidates[0].num_long >= MIN_LONG  # what is recommended was measured in full
    assert race.candidates[4].num_samples <= MIN_LEAD


def test_no_cell_gets_a_second_process_while_another_that_fits_has_none():
    num = 100
    world = World(np.zeros(num), np.full(num, 0.01), seed=8)
    world.time_s = world.left_s = num * world.cost_s[False][0] / 0.9
    race = world.race(Race([0] * num, MARGIN))
    assert sorted(world.order[:num]) == list(range(num))
    assert max(candidate.num_samples for candidate in race.candidates) >= MIN_LEAD  # and the best may lead


def test_one_slow_process_does_not_drop_the_best_cell():
    race = Race([0] * 40, MARGIN)
    for i, candidate in enumerate(race.candidates):
        candidate.add(Sample(-0.1 * i if i else -0.4), is_long=False)
    for i in (1, 2, 3, 4):
        for difference in (-0.05, 0.05):
            race.candidates[i].add(Sample(-0.1 * i + difference), is_long=False)
    race.look()
    assert race.candidates[0].is_in
    assert not race.candidates[30].is_in
