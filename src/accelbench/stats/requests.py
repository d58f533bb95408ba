"""Whether a percentile of the latencies in a queue is within a limit, and at which rate: pure functions on arrays.

In a queue the misses of a limit come in clusters. A rule for independent ones, such as LoadGen's, then passes most
servers that are exactly at their limit. Here a run is cut into batches of successive requests, whose numbers of misses
are about independent (batch means). The variance of these numbers over that of independent misses is the design effect:
a run tells as much as so many times fewer independent requests. Runs at several rates are joined by a regression.

Times are int64 in ns: `scheduled`, when each request was due, in rising order, and `done`, when it was answered. Below
0 it had an error or no answer, and misses any limit. A latency is `done` less `scheduled`. There is a request or more.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accelbench.schema.vocab import Verdict
from accelbench.stats.means import mean_interval, student_quantile

Times = NDArray[np.int64]
Bound = float | None

RISK = 0.01  # of a sure pass where the true percentile is the limit, and of a sure fail there
NUM_BATCHES = 20
SHORTEST = 10  # requests of a batch: shorter ones show no clusters, and a cluster of as many is taken for granted
LONG = 100  # requests of a batch that is longer than most clusters
RELATED, MOST_RELATED = 0.2, 0.8  # correlations of successive batches: below it, that of 20 independent ones
# The design effect is that of the misses, or of the slowest tenth if that is larger: few misses may be one cluster.
SLOW_SHARE = 0.1
CAREFUL = 1.25  # times the design effect: 20 batches may show too little of it
FEWEST = 1.42  # times the requests that independent ones would take: `CAREFUL`, and Student's t of so few batches
MIN_JOINED = 3  # probes that are sure together
MAX_LOAD = 1.8  # of a percentile over its limit, or of the limit over it: probes farther away are on another line
# By how many per cent the share of misses rises with one per cent of the rate, at least and at most.
MIN_STEEPNESS, MAX_STEEPNESS = 1.0, 60.0
OTHERS = (0.7, 1.4)  # times the steepness that the percentiles show
QUANTILE = 1.7  # with the above, so that at most one interval in twenty misses the rate in simulated searches
RATE_ERROR = 0.01  # of the rates themselves, as in `serving.server`
MIN_INCREMENTS, MAX_INCREMENTS = 5, 20
NEVER = np.iinfo(np.int64).max  # the latency of an error


@dataclass(frozen=True, kw_only=True)
class Misses:
    """What the verdict on a run is made of.

    The share of misses has a lower and an upper limit with 99 % confidence each; `effect`, at least 1, is by how much
    its variance is larger than that of independent misses.
    """

    num: int
    num_missed: int
    effect: float
    low: float
    high: float


class Run:
    """The latencies of a run, for several questions."""

    def __init__(self, scheduled: Times, done: Times) -> None:
        self.latencies = np.where(done < 0, NEVER, done - scheduled)
        self.num = len(done)
        self.rising = np.sort(self.latencies)

    def effect(self, limit_ns: float) -> float:
        """The design effect of the share of requests beyond a limit."""
        slow_ns = self.rising[self.num - 1 - int(SLOW_SHARE * self.num)]
        return max(_effect(self.latencies > limit_ns), _effect(self.latencies > slow_ns))

    def misses(self, limit_ns: float) -> Misses:
        num_missed = int(np.count_nonzero(self.latencies > limit_ns))
        effect = self.effect(limit_ns)
        low, high = share_bounds(num_missed / self.num, self.num, CAREFUL * effect)
        return Misses(num=self.num, num_missed=num_missed, effect=effect, low=low, high=high)

    def bounds(self, percentile: float) -> tuple[Bound, Bound, Bound]:
        """The percentile by nearest rank, and its lower and its upper bound, in ns.

        None: there are too few requests to tell it, or it is an error's.
        """
        if self.num < num_requests_for(percentile):
            return None, None, None
        allowed = 1 - percentile / 100
        rank = math.ceil(percentile / 100 * self.num) - 1
        effect = CAREFUL * self.effect(self.rising[rank])
        # A limit below the lower bound is a sure fail, and the upper bound is the lowest limit with a sure pass. In a
        # long run without one, the share beyond the percentile bounds it.
        nums = range(self.num + 1)
        fewest = bisect_right(nums, allowed, key=lambda num: share_bounds(num / self.num, self.num, effect)[0])
        most = bisect_left(nums, allowed, key=lambda num: share_bounds(num / self.num, self.num, effect)[1]) - 1
        if most < 0 and self.num >= LONG * NUM_BATCHES:
            most = self.num - 1 - math.ceil((1 - share_bounds(allowed, self.num, effect)[0]) * self.num)
        return self._latency(rank), self._latency(self.num - fewest), self._latency(self.num - 1 - most)

    def _latency(self, rank: int) -> Bound:
        is_known = 0 <= rank < self.num and self.rising[rank] < NEVER
        return float(self.rising[rank]) if is_known else None


def _effect(hit: NDArray[np.bool_]) -> float:
    size = len(hit) // NUM_BATCHES
    least = 1.0 if size >= SHORTEST else float(SHORTEST)
    share = float(hit.mean())
    if size == 0 or not 0 < share < 1:
        return least
    numbers = hit[: size * NUM_BATCHES].reshape(NUM_BATCHES, size).sum(axis=1)
    effect = float(numbers.var(ddof=1)) / (size * share * (1 - share))
    # Clusters that are longer than a batch: successive batches are alike, and their variance shows too little.
    deviations = numbers - numbers.mean()
    squares = float(deviations @ deviations)
    related = min(float(deviations[1:] @ deviations[:-1]) / squares, MOST_RELATED) if squares else 0.0
    if related > RELATED:
        effect *= (1 + related) / (1 - related)
    return max(least, effect)


def share_bounds(share: float, num: int, effect: float) -> tuple[float, float]:
    """The limits of a share of `num` requests, 99 % each (Korn and Graubard, Survey Methodology 24, 1998)."""
    from scipy.special import betaincinv

    few = (student_quantile(num, 0.95) / student_quantile(NUM_BATCHES - 1, 0.95)) ** 2
    independent = num / effect * few
    hit = share * independent
    low = float(betaincinv(hit, independent - hit + 1, RISK)) if share > 0 else 0.0
    high = float(betaincinv(hit + 1, independent - hit, 1 - RISK)) if share < 1 else 1.0
    return low, high


def verdict(misses: Misses, percentile: float) -> Verdict:
    """Whether the percentile is surely within the limit, or surely beyond."""
    allowed = 1 - percentile / 100
    if misses.low > allowed:
        return Verdict.fails
    return Verdict.passes if misses.high < allowed else Verdict.unknown


def num_requests_for(percentile: float) -> int:
    """The fewest requests with which a sure pass is possible: 651 for the 99th percentile."""
    return math.ceil(FEWEST * math.log(RISK) / math.log(percentile / 100))


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


@dataclass(frozen=True, kw_only=True)
class Probe:
    """A run at one rate, and how its latencies compare with the limit."""

    rate: float
    num: int  # requests
    num_missed: int
    effect: float  # the design effect of the share of misses; infinite: unknown
    load: float  # the percentile over the limit; infinite if too many requests have no answer
    verdict: Verdict


class RateInterval(NamedTuple):
    """The rate at which the percentile is at its limit, with its 95 % interval."""

    rate: float
    low: float
    high: float
    num: int  # probes that it is of


def rate_at_limit(probes: Iterable[Probe], percentile: float) -> RateInterval | None:
    """The highest rate within the limit, by probes of several rates on both sides of it.

    The interval begins at each sure pass or above, and ends at each sure fail or below, also of probes too far to be
    joined. None: there are no probes on both sides, or no such interval, since probes contradict each other.
    """
    # Near that rate, the logarithm of the share of misses rises about linearly with that of the rate. How steeply, say
    # the percentiles: one over a percentile falls about linearly with the rate, and the share is exponential in it
    # (exactly so in an M/M/1 queue). The rate is where as many requests were expected to miss, in all probes together,
    # as did. The interval has the rates at which these numbers differ by less than `QUANTILE` standard errors, with the
    # design effects, or with the differences between probes if those are larger; and with other steepnesses.
    # A sure verdict holds whether or not the line does, so it bounds the interval, too.
    probes = list(probes)
    near = [probe for probe in probes if 1 / MAX_LOAD < probe.load < MAX_LOAD and probe.effect < math.inf]
    sides = {probe.load > 1 for probe in near}
    if len(sides) < 2 or len({probe.rate for probe in near}) < 2:
        return None
    rates, nums, missed, effects, loads = np.array(
        [(probe.rate, probe.num, probe.num_missed, probe.effect, probe.load) for probe in near]
    ).T
    weights = nums / nums.sum()
    distances = rates - weights @ rates
    slope = weights @ (distances / loads) / (weights @ distances**2)
    if slope >= 0:
        return None
    allowed = 1 - percentile / 100
    steepness = min(max(MIN_STEEPNESS, math.log(allowed) * slope * (weights @ rates)), MAX_STEEPNESS)

    def expected(rate: float, steepness: float) -> NDArray[np.float64]:
        numbers: NDArray[np.float64] = nums * np.minimum(0.5, allowed * (rates / rate) ** steepness)
        return numbers

    def solved(steepness: float, errors: float) -> float:
        """The rate at which so many standard errors more requests missed than were expected."""
        low = min(rates) / 3
        high = max(rates) * 3
        for _ in range(40):
            rate = math.sqrt(low * high)
            expects = expected(rate, steepness)
            if missed.sum() - expects.sum() < errors * math.sqrt(effects @ expects):
                low = rate
            else:
                high = rate
        return rate

    rate = solved(steepness, 0.0)
    expects = expected(rate, steepness)
    between = float(np.sum((missed - expects) ** 2 / (effects * expects)) / (len(near) - 1))
    errors = QUANTILE * math.sqrt(max(1.0, between))
    low = min(solved(factor * steepness, -errors) for factor in OTHERS) * (1 - RATE_ERROR)
    high = max(solved(factor * steepness, errors) for factor in OTHERS) * (1 + RATE_ERROR)
    low = max([low, *_rates(probes, Verdict.passes)])
    high = min([high, *_rates(probes, Verdict.fails)])
    return RateInterval(min(max(rate, low), high), low, high, len(near)) if low < high else None


def _rates(probes: Iterable[Probe], word: Verdict) -> list[float]:
    return [probe.rate for probe in probes if probe.verdict == word]


def sure_bounds(probes: Iterable[Probe]) -> tuple[float | None, float | None]:
    """The rate of the second highest sure pass, or of the only one, and the lowest rate of a sure fail.

    The pass above, or of the same rate, confirms the second highest: the highest of many may be luck. A sure fail at
    its rate refutes a pass. Each is None if no probe says so. Both are None if a sure pass is above a sure fail: then
    higher rates are not worse, or a verdict is wrong.
    """
    probes = list(probes)
    passed = _rates(probes, Verdict.passes)
    high = min(_rates(probes, Verdict.fails), default=None)
    if passed and high is not None and max(passed) > high:
        return None, None
    passed = sorted(rate for rate in passed if rate != high)
    return passed[-2:][0] if passed else None, high


def rate_bounds(probes: Sequence[Probe], percentile: float) -> tuple[float | None, float | None]:
    """The bounds of the highest rate within the limit: of all probes together if they tell it, else of single ones."""
    return bounds_of(rate_at_limit(probes, percentile), probes)


def bounds_of(joined: RateInterval | None, probes: Iterable[Probe]) -> tuple[float | None, float | None]:
    """The bounds that all probes together have `joined`, else those of single ones."""
    return sure_bounds(probes) if joined is None else (joined.low, joined.high)
