"""Chooses the next probe in a search for the highest rate of requests within a latency limit.

A probe is a process that serves requests with one setting, at one rate, for a chosen time. This module uses neither
records nor clocks, so tests can simulate whole searches. The estimate of the highest rate is best if there are probes
below and above this rate (`stats/request_latencies.py`).
"""

from dataclasses import dataclass, field

from accelbench.grid.plan import Planned
from accelbench.serving.batcher import MAX_REQUESTS
from accelbench.stats.request_latencies import MAX_LOAD, MIN_JOINED, Probe, rate_at_limit, rate_bounds

MIN_S = 5.0  # shortest probe
NUM_PROBES = 5  # the time is divided for this number of probes of the best setting
FIRST_PART = 0.1  # share of the time for the first probe of a setting, which only gives a direction
LONGER = 2.0  # maximum of a probe's duration divided by the longest earlier one, so that a long search can end early
# Distance of a probe from the highest rate: the share `DISTANCE` of the way to the offline throughput. It is at least
# `LEAST` and at most `MOST` of the rate. Above the rate, where waiting times vary more, it is multiplied by `ABOVE`.
DISTANCE, LEAST, MOST, ABOVE = 0.2, 0.05, 0.3, 0.6
TOLERANCE = 1.05  # the search ends if the upper bound, divided by the lower bound, is at most this
OVERLOAD = 1.1  # multiple of the offline throughput at which the queue surely grows
ROUNDED = 1.02  # multiple of the minimum seconds, since rates and seconds are rounded to three digits
MAX_INVALID = 3  # a setting is given up after this number of invalid probes in a row (for example with late requests)


@dataclass
class Candidate:
    """A setting in the search."""

    item: Planned
    offline: float  # requests/s if all requests are there at the start
    num: int  # minimum number of requests of a probe
    probes: list[Probe] = field(default_factory=list)
    tried: list[float] = field(default_factory=list)  # rates of all processes
    num_invalid: int = 0  # invalid processes in a row
    longest_s: float = 0.0  # longest probe

    @property
    def rate(self) -> float:
        """An estimate of the highest rate within the limit. If there is no probe yet, it is the offline throughput."""
        joined = rate_at_limit(self.probes, self.item.cell.server.percentile)
        if joined is not None:
            return joined.rate
        by_rate = sorted(self.probes, key=lambda probe: probe.rate)
        within = [probe for probe in by_rate if probe.load <= 1]
        beyond = [probe for probe in by_rate if probe.load > 1]
        if not by_rate:
            return self.offline
        # 1 / percentile falls about linearly with the rate. It is 0 where the queue grows.
        if not within:
            lowest = beyond[0]
            room = max(0.0, self.offline - lowest.rate)
            return max(lowest.rate / 2, lowest.rate - room * min(lowest.load - 1, MAX_LOAD))
        rate = within[-1].rate
        inverse = 1 / within[-1].load
        far = max(self.offline, OVERLOAD * rate)
        far_inverse = 0.0
        if beyond and beyond[0].rate > rate:
            far = beyond[0].rate
            far_inverse = 1 / beyond[0].load
        return rate + (far - rate) * (inverse - 1) / (inverse - far_inverse)

    @property
    def bounds(self) -> tuple[float | None, float | None]:
        """The bounds of the highest rate within the limit."""
        return rate_bounds(self.probes, self.item.cell.server.percentile)[:2]

    @property
    def is_close(self) -> bool:
        low, high = self.bounds
        if low is None or high is None or len(self.probes) < MIN_JOINED:
            return False
        return high <= TOLERANCE * low

    def next(self, left_s: float) -> tuple[float, float] | None:
        """Returns the rate and the seconds of the next probe. Returns None if it does not fit into `left_s`."""
        if not self.probes:
            rate = self.offline / 2
            seconds = FIRST_PART * left_s
        else:
            rate = self._unsure_rate or self._other_side()
            seconds = left_s / max(1, NUM_PROBES - len(self.probes))
            seconds = min(seconds, LONGER * self.longest_s)
        seconds = max(min(seconds, MAX_REQUESTS / ROUNDED / rate), MIN_S, ROUNDED * self.num / rate)
        return None if seconds > left_s else (float(f"{rate:.3g}"), float(f"{seconds:.3g}"))

    @property
    def _unsure_rate(self) -> float | None:
        """The highest rate that kept the limit by far, if a rate surely fails, but none surely passes yet.

        A longer probe at this rate gives a lower bound. On a busy machine, slow requests come in long clusters, so that
        even a probe without misses may be too short for a sure pass.
        """
        low, high = self.bounds
        if low is not None or high is None:
            return None
        return max((probe.rate for probe in self.probes if probe.load < 1 / MAX_LOAD), default=None)

    def _other_side(self) -> float:
        """Returns a rate just below or just above the estimate of the highest rate.

        If all probes near the limit kept it, the rate is above the estimate. If none kept it, the rate is below. In
        other cases, the rate is on the side on which fewer requests were sent. If no probe was near the limit, returns
        the estimate.
        """
        middle = self.rate
        distance = min(max(DISTANCE * (self.offline - middle), LEAST * middle), MOST * middle)
        near = [probe for probe in self.probes if 1 / MAX_LOAD < probe.load < MAX_LOAD]
        if not near:
            return middle
        num_within = sum(probe.load <= 1 for probe in near)
        is_above = sum(probe.num * (probe.rate - middle) for probe in near) < 0
        if num_within in (0, len(near)):
            is_above = num_within > 0
        return middle + ABOVE * distance if is_above else middle - distance
