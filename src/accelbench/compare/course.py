"""The order in which the cells of a race get their processes, within the time that there is."""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from accelbench.compare.race import MIN_LEAD, Pull, Race

NUM_TOP = 4  # cells of each group that get enough processes to lead before the first look
NUM_FEW = 4  # cells: if no more are left of a group, their processes are long
ROUND_SHARE = 0.5  # of the cells that are left, the best of which get another process in a round
FIRST_SHARE = 0.85  # of the time, at most, is for the first processes of all cells


@dataclass(frozen=True)
class Course:
    """What a race needs of the world; cells are numbered from 0.

    Attributes:
        measure: runs a process. Its arguments: the cell; whether it is long; the seconds after which it is cut off.
        cost_s: the seconds that this takes, as far as known, of a cell, and whether it is long; 0 if its outcome is
            known already.
        left_s: the seconds that are left.
        time_s: the seconds that the whole race may take.
    """

    measure: Callable[[int, bool, float], Pull]
    cost_s: Callable[[int, bool], float]
    left_s: Callable[[], float]
    time_s: float


def run(race: Race, course: Course, seed: int = 0) -> None:
    """Runs the race until it is decided and every cell was tried, or no process fits into the time that is left.

    First every cell gets one short process, the cheapest cells first. Then the best of each group get more until they
    may lead. In rounds, the better half of the cells that are left get one more, in random order, so that drift of the
    machine affects all alike. Cells that had no process when most of the time was up get theirs once the others are
    decided.

    Args:
        race: to be run.
        course: runs its processes.
        seed: of the order; equal seeds give equal orders.
    """
    runner = _Runner(race, course, random.Random(seed))
    runner.first_pulls(reserve_s=(1 - FIRST_SHARE) * course.time_s)
    runner.decide()
    while runner.first_pulls(reserve_s=0.0):
        runner.decide()


class _Runner:
    def __init__(self, race: Race, course: Course, generator: random.Random) -> None:
        self.race, self.course, self.generator = race, course, generator

    def first_pulls(self, reserve_s: float) -> bool:
        """A process of each cell that has none, the cheapest first, until `reserve_s` are left; whether any ran."""
        untried = [i for i, entrant in enumerate(self.race.entrants) if not entrant.was_tried]
        has_run = False
        while untried:
            # Sorted again and again: what was measured tells how long the others take.
            untried.sort(key=lambda i: self.course.cost_s(i, False))
            num = math.ceil(len(untried) / 10)
            for i in untried[:num]:
                has_run |= self._pull(i, is_long=False, reserve_s=reserve_s)
            del untried[:num]
        return has_run

    def decide(self) -> None:
        """Rounds over the cells that are left, until the groups are decided or no process fits."""
        for _ in range(MIN_LEAD):
            for members in self.race.groups.values():
                self._pull_top(members)
        self.race.look()
        while any([self._pull(i, is_long=is_long) for i, is_long in self._next_round()]):
            self.race.look()

    def _pull_top(self, members: Sequence[int]) -> None:
        entrants = self.race.entrants
        tried = sorted((i for i in members if entrants[i].is_in), key=lambda i: -entrants[i].score)
        for i in tried[:NUM_TOP]:
            if entrants[i].num_pulls < MIN_LEAD:
                self._pull(i, is_long=False)

    def _next_round(self) -> list[tuple[int, bool]]:
        """The cells that get another process, and whether it is long."""
        found = []
        for group, standing in self.race.standings.items():
            if not self.race.is_decided(group):
                left = standing.left
                num = max(NUM_TOP, math.ceil(ROUND_SHARE * len(left)))
                found += [(i, len(left) <= NUM_FEW) for i in left[:num]]
        self.generator.shuffle(found)
        return found

    def _pull(self, i: int, *, is_long: bool, reserve_s: float = 0.0) -> bool:
        """Runs a process of the cell if it fits into the time; whether it did."""
        entrant, course = self.race.entrants[i], self.course
        left_s = course.left_s() - reserve_s
        if course.cost_s(i, is_long) > left_s:
            return False
        pull = course.measure(i, is_long, left_s)
        if not pull.is_cut:
            entrant.add(pull, is_long=is_long)
        return not pull.is_cut
