"""The order in which the cells of a race get their processes, within the time that there is."""

import math
import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from accelbench.search.race import MIN_LEAD, Race, Sample

NUM_TOP = 4  # cells of each group that get enough processes to lead before the first look
NUM_FEW = 4  # cells: if no more are left of a group, their processes are long
ROUND_SHARE = 0.5  # of the cells that are left, the best of which get another process in a round
KEPT_SHARE = 0.15  # of the time, at most, is kept from the first processes for those by which the best may lead


@dataclass
class Schedule:
    """The order in which the cells of `race` get their processes; cells are numbered from 0.

    First every cell gets one short process: those in `first`, and then the cheapest. No cell gets a second one while
    another has none that fits into the time; only what the best need to lead is kept from it. Then the best of each
    group get more until they may lead. In rounds, the better half of the cells that are left get one more, in random
    order, so that drift of the machine affects all alike. Cells that are still without a process get theirs once the
    others are decided.
    """

    race: Race
    measure: Callable[[int, bool, float], Sample]  # runs a process: cell, is it long, seconds until its end
    cost_s: Callable[[int, bool], float]  # of a process, as far as known: cell, is it long; 0 if its outcome is known
    left_s: Callable[[], float]
    time_s: float  # that the whole race may take
    first: Collection[int] = ()  # cells that are tried before all others, such as what users run today
    seed: int = 0  # of the order; equal seeds give equal orders

    def run(self) -> None:
        """Runs the race until it is decided and every cell was tried, or no process fits into the time that is left."""
        self._generator = random.Random(self.seed)
        self._first_samples()
        self._decide()
        while self._first_samples(keeps=False):
            self._decide()

    def _first_samples(self, *, keeps: bool = True) -> bool:
        """A process of each cell that has none, the cheapest first; whether any ran.

        With `keeps`, the time that the best need to lead is kept.
        """
        untried = [i for i, candidate in enumerate(self.race.candidates) if not candidate.was_tried]
        has_run = False
        while untried:
            # Sorted again and again: what was measured tells how long the others take.
            untried.sort(key=lambda i: (i not in self.first, self.cost_s(i, False)))
            num = math.ceil(len(untried) / 10)
            reserve_s = self._for_leads_s() if keeps else 0.0
            for i in untried[:num]:
                has_run |= self._sample(i, is_long=False, reserve_s=reserve_s)
            del untried[:num]
        return has_run

    def _for_leads_s(self) -> float:
        """The seconds that the best of each group need until they may lead; at most a share of the whole time."""
        kept_s, tops = KEPT_SHARE * self.time_s, [self._top(members) for members in self.race.groups.values()]
        if not all(tops):
            return kept_s
        return min(kept_s, (MIN_LEAD - 1) * sum(self.cost_s(i, False) for top in tops for i in top))

    def _decide(self) -> None:
        """Rounds over the cells that are left, until the groups are decided or no process fits."""
        for _ in range(MIN_LEAD):
            for members in self.race.groups.values():
                self._sample_top(members)
        self.race.look()
        while any([self._sample(i, is_long=is_long) for i, is_long in self._next_round()]):
            self.race.look()

    def _sample_top(self, members: Sequence[int]) -> None:
        for i in self._top(members):
            if self.race.candidates[i].num_samples < MIN_LEAD:
                self._sample(i, is_long=False)

    def _top(self, members: Sequence[int]) -> list[int]:
        candidates = self.race.candidates
        return sorted((i for i in members if candidates[i].is_in), key=lambda i: -candidates[i].score)[:NUM_TOP]

    def _next_round(self) -> list[tuple[int, bool]]:
        """The cells that get another process, and whether it is long."""
        found = []
        for group, ranking in self.race.rankings.items():
            if not self.race.is_decided(group):
                left = ranking.left
                num = max(NUM_TOP, math.ceil(ROUND_SHARE * len(left)))
                found += [(i, len(left) <= NUM_FEW) for i in left[:num]]
        self._generator.shuffle(found)
        return found

    def _sample(self, i: int, *, is_long: bool, reserve_s: float = 0.0) -> bool:
        """Runs a process of the cell if it fits into the time; whether it did."""
        candidate = self.race.candidates[i]
        left_s = self.left_s() - reserve_s
        if self.cost_s(i, is_long) > left_s:
            return False
        sample = self.measure(i, is_long, left_s)
        if not sample.is_cut:
            candidate.add(sample, is_long=is_long)
        return not sample.is_cut
