"""Whether a percentile of the latencies in a queue is within a limit, from one run: pure functions on arrays.

In a queue the misses of a limit come in clusters. A rule for independent ones, such as LoadGen's, then passes most
servers that are exactly at their limit. Here a run is cut into cycles, which are independent if arrivals are Poisson's
(Crane and Iglehart, Operations Research 23, 1975). The share of misses has the limits of Korn and Graubard (Survey
Methodology 24, 1998) with cycles as clusters. Where misses are few, clusters of them are counted: their number over
that of misses is the extremal index (Rootzen, Advances in Applied Probability 20, 1988).

Times are int64 in ns: `scheduled`, when each request was due, in rising order, and `done`, when it was answered. Below
0 it had an error or no answer, and misses any limit. A latency is `done` less `scheduled`. There is a request or more.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from accelbench.schema.vocab import Verdict
from accelbench.stats.means import mean_interval

Times = NDArray[np.int64]
Bound = float | None

RISK = 0.01  # of a sure pass where the true percentile is the limit, and of a sure fail there
MIN_CYCLES = 30
# Of cycles with a request of the run's own slowest tenth. With fewer, it saw too few of the long ones.
MIN_SLOW_CYCLES = 10
# The extremal index of the slowest tenth over that farther out, where clusters are longer.
TAIL_RATIO = 1.11
# The extremal index times a request's mean cycle, in requests: 1 + rho^2 in an M/M/1 queue, 2 in a busy M/D/1.
MAX_INDEX = 2
MIN_INCREMENTS, MAX_INCREMENTS = 5, 20
NEVER = np.iinfo(np.int64).max  # the latency of an error


@dataclass(frozen=True, kw_only=True)
class Misses:
    """What the verdict on a run is made of.

    `share`, that of misses, has a lower and an upper limit with 99 % confidence each; `design_effect`, at least 1, is
    by how much its variance is larger than that of independent misses. The first and the last cycle may be cut.
    """

    num: int
    num_missed: int
    num_cycles: int
    num_missed_cycles: int
    design_effect: float
    share: float
    low: float
    high: float


def _begins(scheduled: Times, left: Times) -> NDArray[np.bool_]:
    """Whether a cycle begins at an arrival."""
    # It does if the arrival finds as many requests in the system as arrivals find most often, and none that was there
    # when the last cycle began. One worker is most often found empty. Several, and those that take batches, hardly ever
    # are: their cycles are about independent (tests/stats/test_regenerative.py).
    found = np.arange(len(left)) - np.searchsorted(np.sort(left), scheduled, side="right")
    level = np.bincount(found).argmax()
    begins: NDArray[np.bool_] = found == level
    if level:
        places = np.flatnonzero(begins)
        all_left = np.maximum.accumulate(left)[places - 1]
        following = np.maximum(np.searchsorted(scheduled[places], all_left), np.arange(1, len(places) + 1)).tolist()
        begins[:], place = False, 0
        while place < len(places):
            begins[places[place]], place = True, following[place]
    return begins


class Cycles:
    """The requests of a run in the order of falling latency, and the cycle of each, for several questions."""

    def __init__(self, scheduled: Times, done: Times) -> None:
        self.num = len(done)
        cycles = np.cumsum(_begins(scheduled, np.maximum(done, scheduled + 1)), dtype=np.int32)  # an error leaves soon
        latencies = np.where(done < 0, NEVER, done - scheduled)
        order = np.argsort(-latencies)
        self.slowest, self.cycles = latencies[order], (cycles - cycles[0])[order]
        self.sizes = np.bincount(self.cycles).astype(float)
        self.sum_of_squares = float(self.sizes @ self.sizes)
        self.num_slow = self.num // 10
        self.num_slow_cycles, self.slow_effect = self._spread(self.num_slow)

    def _spread(self, num_missed: int) -> tuple[int, float]:
        """The number of cycles with one of the slowest requests, and the design effect of the share of these."""
        missed = np.bincount(self.cycles[:num_missed], minlength=len(self.sizes))
        num_hit, num, share = int(np.count_nonzero(missed)), len(self.sizes), num_missed / self.num
        if not 0 < share < 1 or num < 2:
            return num_hit, 1.0
        squares = float(missed @ missed - 2 * share * (missed @ self.sizes)) + share**2 * self.sum_of_squares
        return num_hit, max(1.0, num / (num - 1) * squares / self.num / (share * (1 - share)))

    def num_above(self, limit_ns: float) -> int:
        return self.num - int(np.searchsorted(self.slowest[::-1], limit_ns, side="right"))

    def latency(self, rank: int) -> Bound:
        return float(self.slowest[rank]) if rank >= 0 and self.slowest[rank] < NEVER else None

    def misses(self, num_missed: int) -> Misses:
        """If so many of the slowest requests miss."""
        from scipy.special import betaincinv, stdtrit

        num_cycles, (num_hit, effect) = len(self.sizes), self._spread(num_missed)
        if num_hit < MIN_SLOW_CYCLES:
            effect = max(effect, self.slow_effect)
        low, high = 0.0, 1.0
        if num_cycles > 1:
            num = self.num / effect * float(stdtrit(self.num - 1, 0.975) / stdtrit(num_cycles - 1, 0.975)) ** 2
            missed = num * num_missed / self.num
            low = float(betaincinv(missed, num - missed + 1, RISK)) if missed else 0.0
            high = float(betaincinv(missed + 1, num - missed, 1 - RISK)) if num_missed < self.num else 1.0
        counts = {"num": self.num, "num_missed": num_missed, "num_cycles": num_cycles, "num_missed_cycles": num_hit}
        return Misses(**counts, design_effect=effect, share=num_missed / self.num, low=low, high=high)

    def verdict(self, misses: Misses, percentile: float) -> Verdict:
        from scipy.special import betainc

        if misses.num_cycles < MIN_CYCLES or self.num_slow_cycles < MIN_SLOW_CYCLES:
            return Verdict.unknown
        if misses.low > 1 - percentile / 100:
            return Verdict.fails
        index = misses.num_missed_cycles / misses.num_missed if misses.num_missed else 1.0
        if misses.num_missed < self.num_slow:
            of_slow = self.num_slow_cycles / self.num_slow
            index = min(index, of_slow / TAIL_RATIO, MAX_INDEX * self.num / self.sum_of_squares)
        hits = self.num * index - misses.num_missed_cycles
        few = hits > 0 and betainc(hits, misses.num_missed_cycles + 1, percentile / 100) < RISK
        return Verdict.passes if few and misses.high < 1 - percentile / 100 else Verdict.unknown

    def bounds(self, percentile: float) -> tuple[Bound, Bound, Bound]:
        """The percentile of the latencies by nearest rank, and its lower and its upper bound, in ns.

        The upper bound is the lowest limit with a sure pass, and a limit below the lower bound is a sure fail. None:
        there are too few requests to tell it, or it is an error's.
        """
        if self.num < num_requests_for(percentile):
            return None, None, None
        beyond = self.num - math.ceil(percentile / 100 * self.num)
        said, top = partial(self.verdict, percentile=percentile), beyond + 1
        while top < self.num and said(self.misses(top)) != Verdict.fails:
            top = min(2 * top, self.num)  # from below: many misses take long to count
        fewest = bisect_left(range(top), True, lo=beyond, key=lambda num: said(self.misses(num)) == Verdict.fails)
        most = bisect_left(range(beyond + 1), True, key=lambda num: said(self.misses(num)) != Verdict.passes) - 1
        return self.latency(beyond), self.latency(fewest - 1 if fewest < self.num else -1), self.latency(most)


def surely_grows(at_s: Sequence[float], outstanding: Sequence[float]) -> bool:
    """Whether the number of requests in the system, counted at rising times in s, grows (Student's, at 99.5 %)."""
    # Counts are correlated, and a regression finds a trend in any random walk (Granger and Newbold, Journal of
    # Econometrics 2, 1974). So the slope is the mean of the increments over at most 20 equal stretches of time. These
    # are independent while a server is always busy, and cancel each other in a stable queue.
    num = min(MAX_INCREMENTS, len(at_s) - 1)
    if num < MIN_INCREMENTS:
        return False
    increments = np.diff(np.interp(np.linspace(at_s[0], at_s[-1], num + 1), at_s, outstanding))
    return mean_interval(increments.tolist(), 0.99)[0] > 0


def num_requests_for(percentile: float) -> int:
    """The fewest requests with which a sure pass is possible: 509 for the 99th percentile."""
    return math.ceil(TAIL_RATIO * math.log(RISK) / math.log(percentile / 100))
