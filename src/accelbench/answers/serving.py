"""How many requests per second each setting serves within a latency limit. All reports show these numbers.

A probe is a process that served requests at one rate. The rate at which a setting's latency reaches the limit is
estimated from all probes of the setting (`stats/request_latencies.py`).
"""

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from accelbench.answers.cells import MeasuredCell, Process
from accelbench.answers.jobs import Job, alike
from accelbench.judging.row import limit_text
from accelbench.presentation import significant
from accelbench.schema.cell import Cell, Protocol, Server, Status, Verdict
from accelbench.schema.measurement import Serving
from accelbench.schema.serialize import grouped
from accelbench.stats import request_latencies
from accelbench.stats.request_latencies import MIN_JOINED

# Load of a probe with too few requests for the percentile: so far below the limit that the probe decides nothing.
UNKNOWN_LOAD = 0.01


def setting_of(cell: Cell) -> Cell:
    """Returns the cell without the settings in which its probes differ: rate, duration, seed and repeat."""
    server = replace(cell.server, rate=Server.rate, duration_s=Server.duration_s)
    return replace(cell, seed=0, repeat=0, server=server)


def work_of(cell: Cell) -> Cell:
    """Returns the cell without rate, duration, seed, repeat and batching, in which compared cells may differ."""
    asked = cell.server
    server = Server(latency_ms=asked.latency_ms, percentile=asked.percentile)
    return replace(setting_of(cell), server=server)


def probe_of(serving: Serving, server: Server) -> request_latencies.Probe:
    """Returns what one probe shows about the highest rate within the limit."""
    load = UNKNOWN_LOAD
    if (serving.num_missed or 0) > (1 - server.percentile / 100) * serving.num_requests:
        load = math.inf  # unless the percentile is known
    for quantile in serving.latencies:
        if quantile.percentile == server.percentile and quantile.seconds:
            load = 1e3 * quantile.seconds / server.latency_ms
    return request_latencies.Probe(
        rate=server.rate,
        num=serving.num_requests,
        effect=serving.design_effect or math.inf,
        load=load,
        verdict=serving.verdict or Verdict.unknown,
    )


class Probe(NamedTuple):
    """A process that served requests at one rate."""

    seen: request_latencies.Probe
    cell: MeasuredCell
    process: Process  # of the cell


@dataclass(frozen=True)
class Capacity:
    """How many requests per second one setting serves within its limit."""

    what: str  # model, mode, data, and the place if there are several
    setting: str  # such as `fp32 openvino, batches of at most 8, 2 ms delay`
    probes: list[Probe]  # at least one, by rising rate
    low: float | None  # see `request_latencies.rate_interval`
    high: float | None
    # Whether several probes together give `low` and `high`, or two probes surely passed. It is false if most
    # processes were invalid.
    is_sure: bool

    @property
    def limit_text(self) -> str:
        """The limit, such as `p99 at most 50 ms`."""
        return limit_text(self.probes[0].process.own_row)

    def number(self, column: str) -> float | None:
        """Returns the column `column` of the probe whose rate is nearest to `self.low`. None if it is unknown."""
        if (low := self.low) is None:
            return None
        nearest = min(self.probes, key=lambda probe: abs(math.log(probe.seen.rate / low)))
        return nearest.process.number(column)

    @property
    def rates_text(self) -> str:
        """The requests per second, such as `412 to 431` or `at least 412`. Empty if no bound is known."""
        low = significant(self.low)
        high = significant(self.high)
        if self.low is None:
            return "" if self.high is None else f"fewer than {high}"
        return f"at least {low}" if self.high is None else f"{low} to {high}"

    @property
    def how_sure(self) -> str:
        """How sure the rates are: `sure`, `likely` or `can't tell`."""
        if self.rates_text:
            return "sure" if self.is_sure else "likely"
        return Verdict.unknown

    @property
    def sentence(self) -> str:
        """A sentence such as `fp32, one at a time: 412 to 431 requests/s with p99 at most 50 ms (sure)`."""
        if self.rates_text:
            return f"{self.setting}: {self.rates_text} requests/s with {self.limit_text} ({self.how_sure})"
        rates = " to ".join(dict.fromkeys(significant(self.probes[i].seen.rate) for i in (0, -1)))
        return f"{self.setting}: can't tell at {rates} requests/s which rates keep {self.limit_text}: increase --budget"


def capacities(cells: Iterable[MeasuredCell]) -> list[Capacity]:
    """Returns the capacity of each setting. Comparable settings are adjacent, and the best of them comes first."""
    made = []
    for job in alike((cell for cell in cells if cell.cell.protocol == Protocol.server), work_of):
        by_setting = grouped(job.cells, lambda cell: replace(cell, cell=setting_of(cell.cell)).measured_key)
        of_job = [
            capacity for of_one in by_setting.values() if (capacity := _capacity(job, of_one)) is not None
        ]
        made += sorted(of_job, key=lambda capacity: (-(capacity.low or 0.0), -(capacity.high or 0.0)))
    return made


def best_settings(every: Iterable[Capacity]) -> list[Capacity]:
    """The best setting of each workload."""
    best: dict[str, Capacity] = {}
    for capacity in every:
        best.setdefault(capacity.what, capacity)
    return list(best.values())


def _capacity(job: Job, cells: Sequence[MeasuredCell]) -> Capacity | None:
    """Computes the capacity of one setting. Returns None if none of its processes is ok."""
    probes: dict[Hashable, Probe] = {}  # several sweeps may have the cell
    num_invalid = 0
    for cell in cells:
        for process in cell.processes:
            num_invalid += process.outcome == Status.invalid
            serving = process.measurement.serving if process.measurement else None
            if process.is_ok and serving is not None:
                seen = probe_of(serving, process.cell.server)
                probes[process.name, process.started_at] = Probe(seen, cell, process)
    if not probes:
        return None
    ordered = sorted(probes.values(), key=lambda probe: probe.seen.rate)
    first = ordered[0].cell
    batch, server = first.cell.batch_size, first.cell.server
    words = [job.setting(first), "one at a time" if batch == 1 else f"batches of at most {batch}"]
    words += [f"{server.max_delay_ms:g} ms delay"] if server.max_delay_ms else []
    words += [f"{server.workers} workers"] if server.workers > 1 else []
    low, high, num_joined = request_latencies.rate_interval(
        [probe.seen for probe in ordered], server.percentile
    )
    num_passed = sum(probe.seen.verdict == Verdict.passes for probe in ordered)
    is_sure = num_joined >= MIN_JOINED if num_joined else low is None or num_passed > 1
    is_sure &= num_invalid <= len(probes)
    return Capacity(job.what, ", ".join(words), ordered, low, high, is_sure)
