"""The highest rate of requests that settings serve within a limit, by probes: processes that serve at one rate each.

Nothing here knows records or clocks, as in `race.py`. The percentile of a probe says about where the capacity is, also
if the verdict (`stats/regenerative.py`) is that it can't tell. Near the capacity no short probe tells: 5 % below it
takes some 30,000 requests. So a probe keeps a distance from it that shrinks with the root of its number of requests.
Probes get longer until time is up, and each leaves the time that the first pass needs to be confirmed.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from accelbench.answers.serving import sure_bounds
from accelbench.schema.vocab import Verdict

NUM_REQUESTS, MIN_S = 1_000, 5.0  # of a probe that may pass, and of any, at least; a pass of p99 takes 509 requests
FIRST = 0.6  # the first probe only says where to go on: as a share of these requests
MAX_REQUESTS = 8_000_000  # of a probe
TOLERANCE = 1.05  # the lowest sure fail over the highest sure pass: closer ones end the search
GAIN = 1.04  # by which a further probe is to move a bound, or by half of its distance from the capacity
LEAST, MOST = 1e-3, 1.5  # the lowest and the highest rate that is tried, as a share of the offline throughput
OVERLOAD = 1.1  # times the offline throughput: there the requests that wait soon grow for sure
# Squared distances from the capacity, in shares of the offline throughput, times the number of requests. Most probes
# tell at 60 to 150, in simulated queues. What the answer depends on, its first pass and its second, keeps the larger.
SPREAD, CAREFUL = 100.0, 260.0
# Of the time that is left: for the first probe, one that may pass, one that may fail.
FIRST_PART, PASS_PART, FAIL_PART = 0.1, 0.31, 0.25
KEPT = 1.2  # times the cost of the first pass are kept for the second


@dataclass(frozen=True, kw_only=True)
class Probed:
    """What a probe told."""

    rate: float
    seconds: float
    verdict: Verdict = Verdict.unknown
    load: float | None = None  # its percentile over the limit; None: the process was invalid
    num_processes: int = 1  # that it took: those whose requests came late are tried again


@dataclass
class Candidate:
    """A setting in the race."""

    offline: float  # requests/s if all are there at once
    num: int = NUM_REQUESTS  # of a probe that may pass, at least
    probed: list[Probed] = field(default_factory=list)
    has_failed: bool = False

    @property
    def bounds(self) -> tuple[float | None, float | None]:
        """The confirmed sure pass and the lowest sure fail."""
        return sure_bounds((each.rate, each.verdict) for each in self.probed)

    @property
    def passed(self) -> list[Probed]:
        """The sure passes that no sure fail at their rate refutes, by rate."""
        failed = {each.rate for each in self.probed if each.verdict == Verdict.fails}
        found = [each for each in self.probed if each.verdict == Verdict.passes and each.rate not in failed]
        return sorted(found, key=lambda each: each.rate)

    @property
    def top(self) -> float:
        """The rate of the highest sure pass; 0 without one."""
        return self.passed[-1].rate if self.passed else 0.0

    @property
    def is_close(self) -> bool:
        """Whether the bounds are confirmed, and as close as they need to be."""
        low, high = self.bounds
        return len(self.passed) > 1 and low is not None and high is not None and high <= TOLERANCE * low

    @property
    def capacity(self) -> float | None:
        """About the rate at which the percentile is at the limit; None before a probe told anything."""
        # One over the percentile falls about linearly with the rate, and is 0 where the queue grows: exactly so in an
        # M/M/1 queue. The line is that between the highest rate within the limit and the lowest one beyond.
        told = sorted((each.rate, each.load) for each in self.probed if each.load is not None)
        if not told:
            return None
        inside, beyond = [each for each in told if each[1] <= 1], [each for each in told if each[1] > 1]
        if inside:
            rate, load = inside[-1]
            other, share = (beyond[0][0], 1 / beyond[0][1]) if beyond else (max(self.offline, OVERLOAD * rate), 0.0)
            found = rate + (other - rate) * (1 / load - 1) / (1 / load - share)
        else:
            rate, load = beyond[0]
            found = max(rate / 2, self.offline - (self.offline - rate) * load) if rate < self.offline else rate / 2
        high = self.bounds[1] or math.inf
        return min(max(found, 1.02 * self.top), high / 1.02)

    def below(self, capacity: float, seconds: float, spread: float) -> float:
        """The highest rate at which a probe of so many seconds is likely to pass."""
        rate = max(capacity / 2, capacity - self.offline * math.sqrt(spread / (capacity * seconds)))
        for each in self.probed:  # what as long a probe could not tell is too near
            if each.verdict == Verdict.unknown and each.load and each.rate > self.top and each.seconds > 0.9 * seconds:
                rate = min(rate, 0.85 * each.rate)
        return rate

    def above(self, capacity: float, seconds: float) -> float:
        """The lowest rate at which such a probe is likely to fail. Close to the offline throughput, none is."""
        distance, room = self.offline * math.sqrt(SPREAD / (capacity * seconds)), self.offline - capacity
        if distance < 0.8 * room:
            return capacity + min(distance, room / 2)
        return OVERLOAD * max(self.offline, *(each.rate for each in self.probed))


@dataclass
class RateRace:
    """The race of settings that do the same, numbered from 0.

    First the one with the highest offline throughput is probed until a probe passes. Each other one is probed at the
    leader's highest sure pass, and drops out unless it passes. Then the leader gets longer and longer probes on either
    side of its capacity, and at last one that confirms its highest sure pass, or a lower rate that is surer.
    """

    candidates: Sequence[Candidate]
    # Runs a probe: setting, rate, seconds, how many of this rate ran before. None: it failed, or was cut off.
    measure: Callable[[int, float, float, int], Probed | None]
    cost_s: Callable[[int, float, float, int], float]  # of such a probe
    left_s: Callable[[], float]
    kept_s: float = 0.0  # which a probe that runs should leave, for what confirms a pass

    @property
    def leader(self) -> int | None:
        """The setting with the highest sure pass, of equal ones that with the higher capacity; None without one."""
        led = [i for i, each in enumerate(self.candidates) if each.top]
        return max(led, key=lambda i: (self.candidates[i].top, self.candidates[i].capacity or 0.0), default=None)

    def run(self) -> bool:
        """Runs the race; whether the leader's bounds are close and confirmed. Else no more probes fit into the time."""
        order = sorted(range(len(self.candidates)), key=lambda i: -self.candidates[i].offline)
        for i in order:
            self._enter(i, kept_s=0.0 if i == order[-1] else self.left_s() / 2)
        while (best := self.leader) is not None and not self.candidates[best].is_close:
            if not self._advances(best, 0.0) and not self._confirms(best):
                break
        return best is not None and self.candidates[best].is_close

    def _enter(self, i: int, kept_s: float) -> None:
        candidate = self.candidates[i]
        if self.leader is not None:
            best = self.candidates[self.leader].passed[-1]
            if candidate.offline > best.rate and all(each.rate != best.rate for each in candidate.probed):
                self._probe(i, best.rate, best.seconds, kept_s)
        else:
            while not candidate.top and self._advances(i, kept_s):
                pass

    def _advances(self, i: int, kept_s: float) -> bool:
        """Whether a probe ran that may move a bound of the setting: first the one that is farther from the capacity."""
        candidate, left_s = self.candidates[i], self.left_s() - kept_s
        capacity, top, high = candidate.capacity, candidate.top, candidate.bounds[1] or math.inf
        if capacity is None:
            return self._probe(i, candidate.offline / 2, FIRST_PART * left_s, kept_s) is not None
        longest_s = max(each.seconds for each in candidate.probed)
        tries = sum(each.num_processes for each in candidate.probed) / len(candidate.probed)
        pass_s = min(PASS_PART * left_s / tries, 2 * longest_s)
        fail_s = min(FAIL_PART * left_s / tries, 1.4 * longest_s)
        least = min(GAIN * top, math.sqrt(top * capacity))
        most = max(high / GAIN, math.sqrt(high * capacity))
        asks = []
        if pass_s >= MIN_S:
            rate = candidate.below(capacity, pass_s, SPREAD if top else CAREFUL)
            asks += [(rate, pass_s)] if rate >= max(least, LEAST * candidate.offline) else []
        if top and fail_s >= MIN_S:
            rate = candidate.above(capacity, fail_s)
            asks += [(rate, fail_s)] if rate <= min(most, MOST * candidate.offline) else []
        if top and high / capacity > capacity / top:
            asks.reverse()
        return any(self._probe(i, *ask, kept_s) is not None for ask in asks)

    def _confirms(self, i: int) -> bool:
        """Whether a probe ran that may be the second pass, or the second one at the highest rate that passed."""
        candidate = self.candidates[i]
        best, is_second = candidate.passed[-1], len(candidate.passed) == 1
        if not is_second and candidate.bounds[0] == best.rate:
            return False
        left_s = max(0.99 * (self.left_s() - self.cost_s(*self._ask(i, best.rate, best.seconds)) + best.seconds), MIN_S)
        tries = 2 if left_s > 2.6 * best.seconds else 1
        seconds = min(2 * max(each.seconds for each in candidate.probed), left_s / tries)
        others = max((each.top for each in self.candidates if each is not candidate), default=0.0)
        surer = max(others, candidate.below(candidate.capacity or 0.0, seconds, CAREFUL)) if is_second else best.rate
        return self._probe(i, min(best.rate, surer), seconds, None) is not None

    def _ask(self, i: int, rate: float, seconds: float) -> tuple[int, float, float, int]:
        candidate, rate = self.candidates[i], float(f"{rate:.3g}")
        num = candidate.num * (1 if candidate.probed else FIRST)
        seconds = float(f"{min(max(MIN_S, num / rate, seconds), MAX_REQUESTS / rate):.3g}")
        return i, rate, seconds, sum(each.num_processes for each in candidate.probed if each.rate == rate)

    def _probe(self, i: int, rate: float, seconds: float, kept_s: float | None) -> Probed | None:
        """A probe, if it fits into the time but for `kept_s` and for what confirms a pass; None: for nothing."""
        candidate, ask = self.candidates[i], self._ask(i, rate, seconds)
        need_s = self.cost_s(*ask)
        if kept_s is not None and len(passed := candidate.passed) < 2:
            second_s = KEPT * self.cost_s(*self._ask(i, passed[0].rate, passed[0].seconds)) if passed else need_s
            if passed or need_s + second_s <= self.left_s():  # else a single pass is better than none
                kept_s = max(kept_s, second_s)
        if candidate.has_failed:
            return None
        self.kept_s = kept_s or 0.0
        if need_s + self.kept_s > self.left_s():
            return None
        if (found := self.measure(*ask)) is None:
            candidate.has_failed = True
        else:
            candidate.probed.append(found)
        return found
