"""Decides whether a percentile of latencies in a queue is within its limit. Estimates the highest rate within it.

In a queue, requests that miss a limit come in clusters. LoadGen's rule treats misses as independent. So most runs pass
by this rule if the server is exactly at its limit. Only 1 % of them should pass. Here a run is divided into batches of
successive requests. The numbers of misses in these batches are about independent (the method of batch means). The
design effect is their variance divided by the variance of independent misses. If it is 3, 3,000 requests contain only
as much information as 1,000 independent requests. A regression combines runs at several rates.

Times are int64, in ns. `scheduled` has the time when each request is due, in rising order. `done` has the time when
each request was answered. If this time is below 0, the request had an error or no answer, and misses any limit. A
latency is `done` minus `scheduled`. There is at least one request. All functions are pure.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accelbench.schema.vocab import Verdict
from accelbench.stats.means import student_quantile

Times = NDArray[np.int64]
Bound = float | None

RISK = 0.01  # risk of a sure pass, and of a sure fail, if the true percentile is exactly at the limit
NUM_BATCHES = 20
SHORTEST = 10  # requests in a batch: shorter batches do not show clusters, so clusters of this size are assumed
LONG = 100  # requests in a batch that is longer than most clusters
# Bounds of the correlation of successive batches. If the correlation is below the first, the 20 batches may be
# independent, and nothing is corrected. A correction uses at most the second.
RELATED, MOST_RELATED = 0.2, 0.8
# The design effect is the larger one of two: of misses, and of a slowest share of the requests. Few misses may be a
# single cluster. The smallest share with at least `MANY` clusters is used, or else the slowest tenth. A slowest tenth
# may have longer clusters than misses: a machine that is a little slower for seconds is still far within the limit.
SLOW_SHARES = (0.01, 0.03, 0.1)
MANY = 30
CAREFUL = 1.25  # factor of the design effect, because an estimate from 20 batches may be too small
FEWEST = 1.42  # factor of the number of independent requests: `CAREFUL`, and Student's t for 20 batches
MIN_JOINED = 3  # probes that can give a sure answer together
MAX_LOAD = 1.8  # percentile / limit, or limit / percentile; the regression does not fit probes with a larger ratio
# Percent by which the share of misses rises if the rate rises by one percent: limits of the steepness.
MIN_STEEPNESS, MAX_STEEPNESS = 1.0, 60.0
OTHERS = (0.7, 1.4)  # the steepness is multiplied by these to widen the interval
QUANTILE = 1.7  # standard errors; with `OTHERS`, at most 1 in 20 intervals of simulated searches misses the rate
RATE_ERROR = 0.01  # relative error of the rates
NEVER = np.iinfo(np.int64).max  # latency of a request without an answer


@dataclass(frozen=True, kw_only=True)
class Misses:
    """The misses of a run, from which its verdict follows.

    `low` and `high` are bounds of the share of misses, each with 99 % confidence. `effect` is the design effect: the
    factor by which clusters of misses raise the variance. It is at least 1.
    """

    num_missed: int
    effect: float
    low: float
    high: float


class Run:
    """The latencies of a run."""

    def __init__(self, scheduled: Times, done: Times) -> None:
        self.latencies = np.where(done < 0, NEVER, done - scheduled)
        self.num = len(done)
        self.rising = np.sort(self.latencies)

    def effect(self, limit_ns: float) -> float:
        """Returns the design effect for the number of requests whose latency is above a limit."""
        return max(_effect(self.latencies > limit_ns), self.slow_effect)

    @cached_property
    def slow_effect(self) -> float:
        """The design effect of a slowest share of the requests."""
        for share in SLOW_SHARES:
            num_slow = int(share * self.num)
            effect = _effect(self.latencies > self.rising[self.num - 1 - num_slow])
            if num_slow >= MANY * effect:
                break
        return effect

    def misses(self, limit_ns: float) -> Misses:
        num_missed = int(np.count_nonzero(self.latencies > limit_ns))
        effect = self.effect(limit_ns)
        low, high = share_bounds(num_missed / self.num, self.num, CAREFUL * effect)
        return Misses(num_missed=num_missed, effect=effect, low=low, high=high)

    def bounds(self, percentile: float) -> tuple[Bound, Bound, Bound]:
        """Returns the nearest-rank percentile, its lower bound and its upper bound, in ns.

        A value is None if there are too few requests, or if the request at its rank has no answer.
        """
        if self.num < num_requests_for(percentile):
            return None, None, None
        allowed = 1 - percentile / 100
        rank = math.ceil(percentile / 100 * self.num) - 1
        effect = CAREFUL * self.effect(self.rising[rank])
        # A limit below the lower bound is a sure fail. The upper bound is the lowest limit with a sure pass. If a long
        # run has no sure pass, the share of requests beyond the percentile gives the upper bound.
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
    # If clusters are longer than a batch, successive batches are alike, and their variance is too small.
    deviations = numbers - numbers.mean()
    squares = float(deviations @ deviations)
    related = min(float(deviations[1:] @ deviations[:-1]) / squares, MOST_RELATED) if squares else 0.0
    if related > RELATED:
        effect *= (1 + related) / (1 - related)
    return max(least, effect)


def share_bounds(share: float, num: int, effect: float) -> tuple[float, float]:
    """Returns both bounds of a share of `num` requests, each 99 % sure.

    Source: Korn and Graubard, Survey Methodology 24, 1998.
    """
    from scipy.special import betaincinv

    few = (student_quantile(num, 0.95) / student_quantile(NUM_BATCHES - 1, 0.95)) ** 2
    independent = num / effect * few
    hit = share * independent
    low = float(betaincinv(hit, independent - hit + 1, RISK)) if share > 0 else 0.0
    high = float(betaincinv(hit + 1, independent - hit, 1 - RISK)) if share < 1 else 1.0
    return low, high


def verdict(misses: Misses, percentile: float) -> Verdict:
    """Decides whether the percentile is surely within the limit, surely beyond the limit, or neither."""
    allowed = 1 - percentile / 100
    if misses.low > allowed:
        return Verdict.fails
    return Verdict.passes if misses.high < allowed else Verdict.unknown


def num_requests_for(percentile: float) -> int:
    """Returns the minimum number of requests with which a run can surely pass: 651 for the 99th percentile."""
    return math.ceil(FEWEST * math.log(RISK) / math.log(percentile / 100))


@dataclass(frozen=True, kw_only=True)
class Probe:
    """A run at one rate, compared with the limit."""

    rate: float  # requests per second
    num: int  # number of requests
    num_missed: int  # requests that missed the limit
    effect: float  # design effect of the share of misses; infinite: unknown
    load: float  # the percentile divided by the limit; infinite if too many requests have no answer
    verdict: Verdict


class RateInterval(NamedTuple):
    """The rate at which the percentile is at its limit, with a 95 % interval."""

    rate: float
    low: float
    high: float
    num: int  # probes that it was computed from


def rate_at_limit(probes: Iterable[Probe], percentile: float) -> RateInterval | None:
    """Estimates the highest rate within the limit, from probes at rates below and above it.

    The interval begins at or above every sure pass, and ends at or below every sure fail. This also holds for passes
    and fails that are too far from the limit for the regression.

    Returns None if all probes are on one side of the limit, or if they contradict each other.
    """
    # Near the limit, the logarithm of the share of misses rises about linearly with the logarithm of the rate. The
    # slope (steepness) follows from the percentiles: 1 / percentile falls about linearly with the rate, and the share
    # of misses is exponential in it (exactly so in an M/M/1 queue). The rate is the one at which the expected number of
    # misses in all probes equals the observed number. The interval has the rates at which these numbers differ by less
    # than `QUANTILE` standard errors. The errors contain the design effects, or the scatter of the probes if that is
    # larger. Steepnesses multiplied by `OTHERS` widen the interval. A sure verdict does not need the regression, so it
    # bounds the interval, too.
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
        """Returns the `rate` at which `missed - expected(rate, steepness)`, summed, is `errors` standard errors."""
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
    """Returns the second highest rate that surely passes, and the lowest rate that surely fails.

    The highest pass may be luck. The second highest is hardly luck, because a higher rate passed, too. If only one rate
    surely passes, it is returned. A pass at the lowest failing rate is ignored. The first value is None if no rate
    surely passes, and the second is None if no rate surely fails. If a sure pass is above a sure fail, both are None,
    because a verdict is wrong, or higher rates are not worse.
    """
    probes = list(probes)
    passed = _rates(probes, Verdict.passes)
    high = min(_rates(probes, Verdict.fails), default=None)
    if passed and high is not None and max(passed) > high:
        return None, None
    passed = sorted(rate for rate in passed if rate != high)
    return passed[-2:][0] if passed else None, high


def rate_bounds(probes: Sequence[Probe], percentile: float) -> tuple[float | None, float | None, int]:
    """Returns bounds of the highest rate within the limit, and the number of probes that give them together.

    If no probes give bounds together, the bounds come from single probes, and the number is 0.
    """
    joined = rate_at_limit(probes, percentile)
    return (*sure_bounds(probes), 0) if joined is None else (joined.low, joined.high, joined.num)
