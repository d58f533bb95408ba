"""The highest rate of requests that settings serve within a limit, by probes: processes that serve at one rate each.

Nothing here knows records or clocks, as in `race.py`. A setting is bisected, in logarithms, between its highest sure
pass and its lowest sure fail (`stats/regenerative.py`). A rate that can't be told splits the gap: what is below it and
what is above it is halved. It is probed again, with more requests, only if these are likely to tell. Near the capacity
no short probe tells, and 5 % below it takes some 30,000 requests: probes get longer level by level, until time is up.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from accelbench.answers.serving import sure_bounds
from accelbench.schema.vocab import Verdict

NUM_REQUESTS, MIN_S = 1_000, 5.0  # of the shortest probes, at least; a sure pass of p99 takes 509 requests
TOLERANCE = 1.05  # the lowest sure fail over the highest sure pass: closer ones end the search
COARSE = 1.25  # the same of the first level
NUM_LEVELS = 13  # each twice as long as the one before
LEAST, MOST = 1e-3, 1.5  # the lowest and the highest rate that is tried, as a share of the offline throughput


@dataclass(frozen=True, kw_only=True)
class Probed:
    """What a probe told: its verdict, and the share of misses with its bounds."""

    verdict: Verdict
    rate: float
    level: int
    share: float = 0.0
    low: float = 0.0
    high: float = 1.0
    num_processes: int = 1  # that it took: those whose requests came late are tried again

    def would_tell(self, level: int, allowed: float) -> bool:
        """Whether a probe of `level` is likely to tell: bounds shrink with the root of the number of requests.

        If the lower one is above the share that is allowed already, too few queues ended: that takes far longer ones.
        """
        shrunk = 2 ** ((self.level - level) / 2)
        is_below = self.share + shrunk * (self.high - self.share) < allowed
        is_above = allowed < self.share - shrunk * (self.share - self.low)
        return is_below or (is_above and (self.low < allowed or level >= self.level + 3))


@dataclass
class Candidate:
    """A setting in the race."""

    offline: float  # requests/s if all are there at once
    allowed: float  # the share of misses within the limit
    probed: list[Probed] = field(default_factory=list)
    has_failed: bool = False

    @property
    def bounds(self) -> tuple[float | None, float | None]:
        """The highest sure pass and the lowest sure fail."""
        return sure_bounds((each.rate, each.verdict) for each in self.probed)

    @property
    def passed(self) -> list[Probed]:
        """The probes of the highest sure pass."""
        return [each for each in self.probed if (each.rate, each.verdict) == (self.bounds[0], Verdict.passes)]

    @property
    def is_close(self) -> bool:
        """Whether the bounds are as close as they need to be."""
        low, high = self.bounds
        return low is not None and high is not None and high <= TOLERANCE * low

    def next_rate(self, level: int) -> float | None:
        """The rate of the next probe of a level; None if no gap between told and untold rates is wide enough for it."""
        (low, high), width = self.bounds, max(TOLERANCE, COARSE**0.5**level)
        untold = {each.rate: each for each in self.probed if (low or 0.0) < each.rate < (high or math.inf)}
        for each in untold.values():
            if each.level < level and each.would_tell(level, self.allowed):
                return each.rate
        if low is None:
            least = min([*untold, high or math.inf, self.offline]) / 2
            return least if least > LEAST * self.offline else None
        top = high or max(1.05 * self.offline, 1.1 * max([low, *untold]))
        gaps = [(max(untold), top), (low, min(untold))] if untold else [(low, top)]
        start, end = max(gaps, key=lambda gap: gap[1] / gap[0])  # of equal ones the upper: its probes are shorter
        if self.is_close or end <= width * start:
            return top if high is None and top <= MOST * self.offline else None
        return math.sqrt(start * end)


@dataclass
class RateRace:
    """The race of settings that do the same, numbered from 0.

    First the one with the highest offline throughput is bisected with short probes. Each other one is probed at the
    leader's highest sure pass, and drops out unless it passes. Then the leader gets longer probes, and at last another
    one at its highest sure pass: if that fails, the next lower pass, of whatever setting, is confirmed instead.
    """

    candidates: Sequence[Candidate]
    # Runs a probe: setting, rate, level, how many of this rate ran before. None: it failed, or was cut off.
    measure: Callable[[int, float, int, int], Probed | None]
    cost_s: Callable[[int, float, int, int], float]  # of such a probe
    left_s: Callable[[], float]
    kept_s: float = 0.0  # which a probe that runs should leave, for what confirms a pass
    needed_s: float = 0.0  # for a probe that did not fit into the time left, the latest

    @property
    def leader(self) -> int | None:
        """The setting with the highest sure pass; None without one."""
        lows = [each.bounds[0] or 0.0 for each in self.candidates]
        return lows.index(max(lows)) if any(lows) else None

    def run(self) -> bool:
        """Runs the race; whether the leader's bounds are close and confirmed. Else no more probes fit into the time."""
        order = sorted(range(len(self.candidates)), key=lambda i: -self.candidates[i].offline)
        for i in order:
            self._enter(i, kept_s=0.0 if i == order[-1] else self.left_s() / 2)
        for level in range(NUM_LEVELS if order else 0):
            i = order[0] if self.leader is None else self.leader
            if not self._bisect(i, level, 0.0) or self.candidates[i].is_close:
                break
        while self._was_refuted():
            pass
        best = None if self.leader is None else self.candidates[self.leader]
        return best is not None and best.is_close and len(best.passed) > 1

    def _enter(self, i: int, kept_s: float) -> None:
        if self.leader is not None:
            rate = self.candidates[self.leader].bounds[0] or 0.0
            first = self._probe(i, rate, 0, kept_s) if self.candidates[i].offline > rate else None
            if first is None or first.verdict != Verdict.passes:
                return
        self._bisect(i, 0, kept_s)

    def _bisect(self, i: int, level: int, kept_s: float) -> bool:
        """Whether it ended before the time did."""
        while (rate := self.candidates[i].next_rate(level)) is not None:
            if self._probe(i, rate, level, kept_s) is None:
                return False
        return True

    def _was_refuted(self) -> bool:
        """Whether the leader's highest sure pass failed when it was to be confirmed."""
        if (i := self.leader) is None or len(passed := self.candidates[i].passed) > 1:
            return False
        rate, level = passed[0].rate, passed[0].level
        found = self._probe(i, rate, level + 1, None) or self._probe(i, rate, level, None)
        return found is not None and found.verdict == Verdict.fails

    def _ask(self, i: int, rate: float, level: int) -> tuple[int, float, int, int]:
        rate = float(f"{rate:.3g}")
        return i, rate, level, sum(each.num_processes for each in self.candidates[i].probed if each.rate == rate)

    def _probe(self, i: int, rate: float, level: int, kept_s: float | None) -> Probed | None:
        """A probe, if it fits into the time but for `kept_s` and for what confirms a pass; None: for nothing."""
        candidate, ask = self.candidates[i], self._ask(i, rate, level)
        need_s = self.cost_s(*ask)
        if kept_s is not None and (leader := self.leader) is not None:
            # What passed was lucky, too: twice as many requests confirm it in 9 of 10 searches, as many in 6.
            costs_s = [self.cost_s(*self._ask(leader, one.rate, one.level)) for one in self.candidates[leader].passed]
            kept_s = max(kept_s, 2 * max(need_s, *costs_s))
        if candidate.has_failed:
            return None
        self.kept_s = kept_s or 0.0
        if need_s + self.kept_s > self.left_s():
            self.needed_s = need_s + self.kept_s
            return None
        if (found := self.measure(*ask)) is None:
            candidate.has_failed = True
        else:
            candidate.probed.append(found)
        return found
