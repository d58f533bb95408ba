"""Decides whether a percentile of latencies in a queue is within its limit. Estimates the highest rate within it.

In a queue, requests that miss a limit come in clusters. LoadGen's rule treats misses as independent. So most runs pass
by this rule if the server is exactly at its limit. Only 1 % of them should pass. Here a run is divided into batches of
successive requests. The numbers of misses in these batches are about independent (the method of batch means). The
design effect is their variance divided by the variance of independent misses. If it is 3, 3,000 requests contain only
as much information as 1,000 independent requests. A line through runs at several rates gives the rate at the limit.

Times are int64, in ns. `scheduled` has the time when each request is due, in rising order. `done` has the time when
each request was answered. If this time is below 0, the request had an error or no answer, and misses any limit. A
latency is `done` minus `scheduled`. There is at least one request. All functions are pure.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accelbench.schema.cell import Verdict
from accelbench.stats.intervals import student_quantile

Times = NDArray[np.int64]
Bound = float | None

RISK = 0.01  # risk of a sure pass, and of a sure fail, if the true percentile is exactly at the limit
NUM_BATCHES = 20
# Requests in a batch: shorter batches do not show clusters, so clusters of this size are assumed.
SHORTEST = 10
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
MAX_LOAD = 1.8  # percentile / limit, or limit / percentile; the line does not fit probes with a larger ratio
OTHERS = (0.7, 1.4)  # the line's slope is multiplied by these to widen the interval
# Standard errors; with `OTHERS`, at most 1 in 20 intervals of simulated searches misses the rate.
QUANTILE = 2.2
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
        """Counts the requests whose latency is above a limit."""
        num_missed = int(np.count_nonzero(self.latencies > limit_ns))
        effect = max(_effect(self.latencies > limit_ns), self.slow_effect)
        low, high = share_bounds(num_missed / self.num, self.num, CAREFUL * effect)
        return Misses(num_missed=num_missed, effect=effect, low=low, high=high)

    def bounds(self, percentile: float, limit_ns: float = 0) -> tuple[Bound, Bound, Bound]:
        """Returns the nearest-rank percentile, its lower bound and its upper bound, in ns.

        As a limit, a latency below the lower bound would surely fail. The upper bound is the lowest latency that would
        surely pass. Both bounds agree with the verdict on `limit_ns`.

        A value is None if there are too few requests, or if the request at its rank has no answer.
        """
        if self.num < num_requests_for(percentile):
            return None, None, None
        rank = math.ceil(percentile / 100 * self.num) - 1
        within = int(np.searchsorted(self.rising, limit_ns, "right"))
        known = max(0, within - 1)  # the highest latency within the limit

        def first(*words: Verdict) -> Bound:
            def has(rank: int) -> bool:
                return verdict(self.misses(self.rising[rank]), percentile) in words

            start, stop = (0, known) if has(known) else (known + 1, self.num)
            return self._latency(bisect_left(range(self.num), True, start, stop, key=has))

        return self._latency(rank), first(Verdict.unknown, Verdict.passes), first(Verdict.passes)

    def _latency(self, rank: int) -> Bound:
        return float(self.rising[rank]) if rank < self.num and self.rising[rank] < NEVER else None


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
    effect: float  # design effect of the share of misses; infinite: unknown
    load: float  # the percentile divided by the limit; infinite if too many requests have no answer
    verdict: Verdict


class RateInterval(NamedTuple):
    """Bounds of the highest rate within the limit. None: the probes do not give this bound."""

    low: float | None
    high: float | None
    num: int = 0  # probes near the limit from which the bounds were computed; 0: single probes are the bounds


def rate_interval(probes: Sequence[Probe], percentile: float) -> RateInterval:
    """Returns the 95 % interval of the highest rate within the limit, if there are probes below and above it.

    The interval begins at or above every sure pass, and ends at or below every sure fail. This also holds for passes
    and fails that are far from the limit.

    If the probes give no interval, `low` is the second highest rate that surely passes, because the highest pass may be
    luck. If only one rate surely passes, it is `low`. A pass at the lowest failing rate is ignored. `high` is the
    lowest rate that surely fails. If a sure pass is above a sure fail, both are None, because a verdict is wrong, or
    higher rates are not worse.
    """
    passed = sorted(probe.rate for probe in probes if probe.verdict == Verdict.passes)
    failed = [probe.rate for probe in probes if probe.verdict == Verdict.fails]
    if (fitted := _fitted(probes, percentile)) is not None:
        low, high, num = fitted
        low = max([low, *passed])
        high = min([high, *failed])
        if low < high:
            return RateInterval(low, high, num)
    lowest_fail = min(failed, default=None)
    if passed and lowest_fail is not None and passed[-1] > lowest_fail:
        return RateInterval(None, None)
    passed = [rate for rate in passed if rate != lowest_fail]
    return RateInterval(passed[-2:][0] if passed else None, lowest_fail)


def _fitted(probes: Sequence[Probe], percentile: float) -> tuple[float, float, int] | None:
    """Fits a line to the probes near the limit. Returns the rates between which it crosses the limit, and their number.

    Returns None if all probes are on one side of the limit, or if higher rates have lower percentiles.
    """
    # 1 / percentile falls about linearly with the rate (exactly so in an M/M/1 queue). The share of slower requests
    # falls exponentially with the latency. So the percentile's relative error is the share's, divided by a logarithm.
    near = [probe for probe in probes if 1 / MAX_LOAD < probe.load < MAX_LOAD and probe.effect < math.inf]
    if len({probe.load > 1 for probe in near}) < 2 or len({probe.rate for probe in near}) < 2:
        return None
    rates, nums, effects, loads = np.array(
        [(probe.rate, probe.num, probe.effect, probe.load) for probe in near]
    ).T
    allowed = 1 - percentile / 100
    heights = 1 / loads - 1  # 0 at the limit
    errors = np.sqrt(effects / (allowed * nums)) / -math.log(allowed) / loads
    weights = nums / nums.sum()
    middle = weights @ rates
    distances = rates - middle
    slope, height = np.polyfit(distances, heights, 1, w=np.sqrt(weights))
    if slope >= 0:
        return None
    scatter = np.sum(((height + slope * distances - heights) / errors) ** 2) / (len(near) - 1)
    error = QUANTILE * math.sqrt(weights**2 @ errors**2 * max(1.0, scatter))
    ends = [middle - (height + shift) / (slope * other) for shift in (-error, error) for other in OTHERS]
    return (min(ends), max(ends), len(near)) if min(ends) > 0 else None
