"""Which of many cells is the best: bounds from a few processes of each, by which most drop out after one.

The unit is the process, as in every comparison (docs/comparing.md). A process gives a score: the logarithm of what is
to be large. Nothing here knows records or clocks, so that the same code judges real cells and simulated ones.

Let sigma be the spread of scores between processes of a cell. It is pooled over all cells with two processes or more:
the median absolute deviation, at least `FLOOR`. A cell with n processes and the median score m has an upper bound
m + x(n) and a lower bound m - y(n):

- x(n) is a quantile of Student's t with `FREEDOM` n degrees of freedom, at half of the error. Other load slows single
  processes down by 10 to 50 %: so few degrees of freedom allow for it, and several of a cell's processes are rarely
  slowed. Only the best cell must not drop out by chance, so this half is not divided by the number of cells.
- y(n) is a quantile of t with `LOWER_FREEDOM` degrees of freedom, since load makes no process faster. Any cell may
  look the fastest by chance, so the other half of the error is divided by the number of cells.

The bounds of a cell change only with its n, so the error is spent over n and not over looks: the share 6 / (pi n)^2
each, which add up to 1. Of the cells with `MIN_LEAD` processes or more, the highest lower bound is R. A cell whose
upper bound is below R is slower than one that is still in the race, and drops out. No tried cell is then better than
the leader, the cell with the highest lower bound, by more than the highest upper bound of the cells that are left.

Such races are old (Maron and Moore, Hoeffding Races, 1994; Even-Dar, Mannor and Mansour, Journal of Machine Learning
Research 7, 2006); their bounds are for scores that are bounded or normal. tests/search/test_race.py simulates ours.

Short processes may differ from long ones by a few per cent, each cell's in its own way. x(1) to x(3) are several times
as large, and a cell with `MIN_LONG` long processes is judged by these alone.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import cache
from statistics import median

from scipy.special import stdtrit

from accelbench.stats.order_statistics import MAD_TO_SIGMA, MEDIAN_ERROR

FLOOR = 0.02  # of the spread between processes; those that were measured are 2 to 4 %
FREEDOM, LOWER_FREEDOM = 1.5, 20
MIN_LEAD, MIN_LONG = 3, 2  # processes
HALF_ERROR = 0.025  # of what is said of each group


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

    @property
    def left(self) -> list[int]:
        """The leader, if there is one, and its rivals."""
        return [*([] if self.leader is None else [self.leader]), *self.rivals]


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
            i: candidates[i].score - _below(candidates[i], spread, len(members))
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
    num = len(candidate.scores)
    return spread * _standard_error(num) * _quantile(FREEDOM * num, HALF_ERROR * _part(candidate.num_samples))


def _below(candidate: Candidate, spread: float, num_cells: int) -> float:
    """y(n) of the cell."""
    error = HALF_ERROR / num_cells * _part(candidate.num_samples)
    return spread * _standard_error(len(candidate.scores)) * _quantile(LOWER_FREEDOM, error)


def _part(num: int) -> float:
    """The share of the error that is spent on the bounds after `num` processes; those of all numbers add up to 1."""
    return 6 / (math.pi * num) ** 2


@cache
def _quantile(freedom: float, error: float) -> float:
    """What Student's t exceeds with the probability `error`."""
    return -float(stdtrit(freedom, error))


def _standard_error(num: int) -> float:
    """Of the median of `num` scores, for a spread of 1; the median of one or two is their mean."""
    return (MEDIAN_ERROR if num > 2 else 1.0) / math.sqrt(num)
