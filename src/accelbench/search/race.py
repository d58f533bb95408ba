"""Which of many cells is the best: bounds from a few processes of each, by which most drop out after one.

The unit is the process, as in every comparison (docs/comparing.md). A process gives a score: the logarithm of what is
to be large. Nothing here knows records or clocks, so that the same code judges real cells and simulated ones.

Let sigma be the spread of scores between processes of a cell: the median absolute deviation, pooled over all cells with
two processes or more, at least `FLOOR`. A cell with n processes and the median score m has an upper bound m + x(n) and
a lower bound m - y(n):

- x(n) is a quantile of Student's t with `FREEDOM` n degrees of freedom, at half of the error. Other load slows single
  processes down by 10 to 50 %: so few degrees of freedom allow for it, and several of a cell's processes are rarely
  slowed. Only the best cell must not drop out by chance, so this half is not divided by the number of cells.
- y(n) is a quantile of t with `LOWER_FREEDOM` degrees of freedom, since load makes no process faster. Any cell may
  look the fastest by chance, so the other half of the error is divided by the number of cells.

The error is spent over n and not over looks: the share 6 / (pi n)^2 each, which add up to 1. Of the cells with
`MIN_LEAD` processes or more, the highest lower bound is R. A cell whose upper bound is below R drops out. No tried cell
is then better than the leader, the cell with the highest lower bound, by more than the highest upper bound of those
left. Such races are old (Maron and Moore, Hoeffding Races, 1994; Even-Dar, Mannor and Mansour, Journal of Machine
Learning Research 7, 2006); their bounds are for scores that are bounded or normal. tests/search/test_race.py simulates
ours. Short processes may differ from long ones by a few per cent, each cell's in its own way: x(1) to x(3) are several
times as large, and a cell with `MIN_LONG` long processes is judged by these alone.
"""

import math
import random
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, field
from functools import cache
from statistics import median

from scipy.special import stdtrit

from accelbench.stats.order_statistics import MAD_TO_SIGMA, MEDIAN_ERROR

FLOOR = 0.02  # of the spread between processes; those that were measured are 2 to 4 %
FREEDOM, LOWER_FREEDOM = 1.5, 20
MIN_LEAD, MIN_LONG = 3, 2  # processes
HALF_ERROR = 0.025  # of what is said of each group
NUM_TOP = 4  # cells of each group that get enough processes to lead before the first look
NUM_FEW = 4  # cells: if no more are left of a group, their processes are long
ROUND_SHARE = 0.5  # of the cells that are left, the best of which get another process in a round
KEPT_SHARE = 0.15  # of the time, at most, is kept from the first processes for those by which the best may lead


@dataclass(frozen=True)
class Sample:
    """What one process of a cell gave."""

    score: float | None  # the logarithm of what is to be large; None if the process failed
    limited: float = -math.inf  # the logarithm of what the limit is on, such as the latency
    is_cut: bool = False  # ended because the time was up, or disturbed, which says nothing about the cell


@dataclass
class Candidate:
    """A cell in the race."""

    num_samples: int = 0  # its processes that gave a score
    num_long: int = 0
    scores: list[float] = field(default_factory=list)  # those that it is judged by
    limited: float = -math.inf  # the median of what the limit is on
    has_dropped: bool = False  # another cell is better
    has_failed: bool = False
    is_over: bool = False  # over the limit
    _samples: list[tuple[Sample, bool]] = field(default_factory=list)

    @property
    def was_tried(self) -> bool:
        """Whether a process of it gave a score, or failed."""
        return self.num_samples > 0 or self.has_failed

    @property
    def is_in(self) -> bool:
        """Whether it was tried and may still be the best."""
        return self.num_samples > 0 and not (self.has_dropped or self.has_failed or self.is_over)

    @property
    def score(self) -> float:
        """The median of its scores."""
        return median(self.scores)

    def add(self, sample: Sample, *, is_long: bool) -> None:
        """Takes in what another process gave."""
        if sample.score is None:
            self.has_failed = True
            return
        self._samples.append((sample, is_long))
        self.num_samples += 1
        self.num_long += is_long
        used = [each for each, of_long in self._samples if of_long or self.num_long < MIN_LONG]
        self.scores = [each.score for each in used if each.score is not None]
        self.limited = median([each.limited for each in used])


@dataclass(frozen=True)
class Ranking:
    """How the race of a group stands."""

    leader: int | None = None  # the cell to recommend; None if no cell within the limit has `MIN_LEAD` processes
    margin: float = math.inf  # no tried cell of the group is better than the leader by more than this share
    rivals: list[int] = field(default_factory=list)  # the others that may be the best, by their scores, best first


class Race:
    """The races of several groups of cells; cells are numbered from 0.

    Args:
        groups: the group of each cell; only cells of one group race against each other.
        margin: by which share a tried cell may be better than the leader once the race is decided.
        limit: the logarithm of the largest `Sample.limited` of a cell that may lead; None: there is no limit.
    """

    def __init__(self, groups: Sequence[Hashable], margin: float, limit: float | None = None) -> None:
        self.candidates = [Candidate() for _ in groups]
        # group -> its cells
        self.groups = {group: [i for i, each in enumerate(groups) if each == group] for group in dict.fromkeys(groups)}
        self.margin, self.limit = margin, limit
        self.rankings = dict.fromkeys(self.groups, Ranking())  # of each group, as of the last look

    @property
    def spread(self) -> float:
        """The standard deviation of scores between processes of a cell, pooled over cells; at least `FLOOR`."""
        deviations = []
        for scores in (each.scores for each in self.candidates if len(each.scores) > 1):
            middle, num = median(scores), len(scores)
            deviations += [math.sqrt(num / (num - 1)) * abs(score - middle) for score in scores]
        known = [deviation for deviation in deviations if deviation > 0]  # an odd number of scores has its median
        return max(FLOOR, MAD_TO_SIGMA * median(known)) if known else FLOOR

    def look(self) -> None:
        """Drops the cells that are beaten or over the limit, and updates the rankings."""
        spread = self.spread
        for group, members in self.groups.items():
            self.rankings[group] = self._ranking(members, spread)

    def _ranking(self, members: Sequence[int], spread: float) -> Ranking:
        candidates, limit = self.candidates, self.limit
        if limit is not None:
            for candidate in (candidates[i] for i in members if candidates[i].is_in):
                candidate.is_over = candidate.limited - _above(candidate, spread) > limit
        cells = [i for i in members if candidates[i].is_in]
        upper = {i: candidates[i].score + _above(candidates[i], spread) for i in cells}
        may_lead = [i for i in cells if candidates[i].num_samples >= MIN_LEAD]
        lower = {
            i: candidates[i].score - _bound(candidates[i], spread, LOWER_FREEDOM, HALF_ERROR / len(members))
            for i in may_lead
            if limit is None or candidates[i].limited <= limit
        }
        for i in cells:
            candidates[i].has_dropped = upper[i] < max(lower.values(), default=-math.inf)
        left = sorted((i for i in cells if candidates[i].is_in), key=lambda i: -candidates[i].score)
        leader = max((i for i in left if i in lower), key=lambda i: lower[i], default=None)
        rivals = [i for i in left if i != leader]
        if leader is None:
            return Ranking(rivals=rivals)
        excess = max((upper[i] - lower[leader] for i in rivals), default=0.0)
        return Ranking(leader, math.expm1(max(0.0, excess)), rivals)

    def is_decided(self, group: Hashable) -> bool:
        """Whether the leader has long processes, and no tried cell of the group is better by more than the margin."""
        ranking = self.rankings[group]
        if ranking.leader is None:
            return not ranking.rivals
        return ranking.margin <= self.margin and self.candidates[ranking.leader].num_long >= MIN_LONG


def _above(candidate: Candidate, spread: float) -> float:
    """x(n) of the cell."""
    return _bound(candidate, spread, FREEDOM * len(candidate.scores), HALF_ERROR)


def _bound(candidate: Candidate, spread: float, freedom: float, error: float) -> float:
    """How far the median of a cell's scores may be from the truth."""
    num, share = len(candidate.scores), 6 / (math.pi * candidate.num_samples) ** 2
    standard_error = (MEDIAN_ERROR if num > 2 else 1.0) / math.sqrt(num)  # the median of one or two is their mean
    return spread * standard_error * _quantile(freedom, error * share)


@cache
def _quantile(freedom: float, error: float) -> float:
    """What Student's t exceeds with the probability `error`."""
    return -float(stdtrit(freedom, error))


@dataclass
class Schedule:
    """The order in which the cells of `race` get their processes; cells are numbered from 0.

    First every cell gets one short process: those in `first`, and then the cheapest; only what the best need to lead is
    kept from it. Then the best of each group get more until they may lead. In rounds, the better half of the cells that
    are left get one more, in random order, so that drift of the machine affects all alike.
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
        """A process of each untried cell, the cheapest first; whether any ran. `keeps` time for the best."""
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
        kept_s, tops = KEPT_SHARE * self.time_s, [self._top(members) for members in self.race.groups.values()]
        costs_s = (self.cost_s(i, False) for top in tops for i in top)
        return min(kept_s, (MIN_LEAD - 1) * sum(costs_s)) if all(tops) else kept_s

    def _decide(self) -> None:
        """Rounds over the cells that are left, until the groups are decided or no process fits."""
        for members in [*self.race.groups.values()] * MIN_LEAD:
            for i in self._top(members):
                if self.race.candidates[i].num_samples < MIN_LEAD:
                    self._sample(i, is_long=False)
        self.race.look()
        while any([self._sample(i, is_long=is_long) for i, is_long in self._next_round()]):
            self.race.look()

    def _top(self, members: Sequence[int]) -> list[int]:
        candidates = self.race.candidates
        return sorted((i for i in members if candidates[i].is_in), key=lambda i: -candidates[i].score)[:NUM_TOP]

    def _next_round(self) -> list[tuple[int, bool]]:
        """The cells that get another process, and whether it is long."""
        found = []
        for group, ranking in self.race.rankings.items():
            if not self.race.is_decided(group):
                left = ranking.rivals if ranking.leader is None else [ranking.leader, *ranking.rivals]
                num = max(NUM_TOP, math.ceil(ROUND_SHARE * len(left)))
                found += [(i, len(left) <= NUM_FEW) for i in left[:num]]
        self._generator.shuffle(found)
        return found

    def _sample(self, i: int, *, is_long: bool, reserve_s: float = 0.0) -> bool:
        """Runs a process of the cell if it fits into the time; whether it did."""
        left_s = self.left_s() - reserve_s
        if self.cost_s(i, is_long) > left_s:
            return False
        sample = self.measure(i, is_long, left_s)
        if not sample.is_cut:
            self.race.candidates[i].add(sample, is_long=is_long)
        return not sample.is_cut
