"""Which setting is probed next, at which rate and for how long, to find the highest rate that is within a limit.

A probe is a process that serves requests at one rate. Nothing here knows records or clocks, so that tests can simulate
whole searches. Probes on both sides of the rate that is looked for tell the most together (`stats/requests.py`).
"""

from dataclasses import dataclass, field

from accelbench.grid.plan import Planned
from accelbench.stats.requests import MAX_LOAD, MIN_JOINED, Probe, rate_at_limit, rate_bounds

MIN_S = 5.0  # of a probe
NUM_PROBES = 5  # of the leader, in the time that there is
FIRST_PART = 0.1  # of the time, for the first probe of a setting: it only says where to go on
LONGER = 2.0  # times the longest probe so far: a long search ends once the answer is close
# How far a probe is from the rate that is looked for: as a share of the way to the offline throughput, but at least and
# at most these shares of the rate; above it, where waiting times vary more, less far.
DISTANCE, LEAST, MOST, ABOVE = 0.2, 0.05, 0.3, 0.6
TOLERANCE = 1.05  # the upper bound over the lower one: closer ones end the search
OVERLOAD = 1.1  # times the offline throughput: there the requests that wait soon grow for sure
ROUNDED = 1.02  # times the seconds of the fewest requests: rates and seconds have three digits
MAX_INVALID = 3  # probes of a setting in a row, such as those whose requests came late: then none is run again


@dataclass
class Candidate:
    """A setting in the search."""

    item: Planned
    offline: float  # requests/s if all are there at once
    num: int  # requests of a probe, at least
    probes: list[Probe] = field(default_factory=list)
    tried: list[float] = field(default_factory=list)  # the rates of all processes
    num_invalid: int = 0  # processes in a row that told nothing
    longest_s: float = 0.0  # of its probes

    @property
    def rate(self) -> float:
        """About the highest rate within the limit; without a probe, the most that it can be."""
        joined = rate_at_limit(self.probes, self.item.cell.server.percentile)
        if joined is not None:
            return joined.rate
        by_rate = sorted(self.probes, key=lambda probe: probe.rate)
        within = [probe for probe in by_rate if probe.load <= 1]
        beyond = [probe for probe in by_rate if probe.load > 1]
        if not by_rate:
            return self.offline
        # One over the percentile falls about linearly with the rate, to 0 where the queue grows.
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
    def is_close(self) -> bool:
        low, high = rate_bounds(self.probes, self.item.cell.server.percentile)
        if low is None or high is None or len(self.probes) < MIN_JOINED:
            return False
        return high <= TOLERANCE * low

    def next(self, left_s: float) -> tuple[float, float] | None:
        """The rate and the seconds of the next probe; None if it does not fit into the time that is left."""
        if not self.probes:
            rate = self.offline / 2
            seconds = FIRST_PART * left_s
        else:
            rate = self._other_side()
            seconds = left_s / max(1, NUM_PROBES - len(self.probes))
            seconds = min(seconds, LONGER * self.longest_s)
        seconds = max(seconds, MIN_S, ROUNDED * self.num / rate)
        return None if seconds > left_s else (float(f"{rate:.3g}"), float(f"{seconds:.3g}"))

    def _other_side(self) -> float:
        """A rate on the side of the highest one within the limit from which there are fewer requests."""
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
