"""Finds the highest rate of requests within a latency limit, and its setting. Settings are probed at several rates.

A probe is a process that serves requests with one setting, at one rate, for a chosen time. `Candidate` chooses the
probes. It uses neither records nor clocks, so tests can simulate whole searches.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rich.console import Console

from accelbench.answers.cells import Process
from accelbench.answers.serving import capacities, probe_of, setting_of, work_of
from accelbench.answers.words import disturbed_text
from accelbench.errors import UserError
from accelbench.grid.plan import Planned
from accelbench.isolation.hosts import Hosts
from accelbench.judging.row import served_text
from accelbench.judging.verdict import why_disturbed
from accelbench.presentation import duration, say, significant
from accelbench.project import shown
from accelbench.report import read
from accelbench.schema.cell import CHOSEN_SETTINGS, UNEXPECTED, Cell, Protocol, Server, Status
from accelbench.schema.measurement import Serving
from accelbench.schema.record import Record
from accelbench.search.base import BaseSearch
from accelbench.serving.server import MAX_REQUESTS
from accelbench.settings.config import SweepOptions
from accelbench.stats.request_latencies import (
    MAX_LOAD,
    MIN_JOINED,
    Probe,
    RateInterval,
    num_requests_for,
    rate_interval,
)
from accelbench.sweep.session import Session

FIRST_S = 2.0  # seconds of all requests at once, to see what rates a setting can reach
OVERHEAD_S = 3.0  # assumed seconds of a process besides its requests, until a process was measured
MIN_S = 5.0  # shortest probe
NUM_PROBES = 5  # the time is divided for this number of probes of the best setting
FIRST_PART = 0.1  # share of the time for the first probe of a setting, which only gives a direction
# Maximum of a probe's duration divided by the longest earlier one, so that a long search can end early.
LONGER = 2.0
# Distance of a probe from the highest rate: the share `DISTANCE` of the way to the offline throughput. It is at least
# `LEAST` and at most `MOST` of the rate. Above the rate, where waiting times vary more, it is multiplied by `ABOVE`.
DISTANCE, LEAST, MOST, ABOVE = 0.2, 0.05, 0.3, 0.6
TOLERANCE = 1.05  # the search ends if the upper bound, divided by the lower bound, is at most this
# If a failed probe's rate is this many times that of the highest pass, the rate between them is next.
HALVED = 1.4
OVERLOAD = 1.1  # multiple of the offline throughput at which the queue surely grows
ROUNDED = 1.02  # multiple of the minimum seconds, since rates and seconds are rounded to three digits
# A setting is given up after this number of invalid probes in a row (for example with late requests).
MAX_INVALID = 3


@dataclass
class Candidate:
    """A setting in the search."""

    item: Planned
    offline: float  # requests/s if all requests are there at the start
    num: int  # minimum number of requests of a probe
    probes: list[Probe] = field(default_factory=list)
    tried: list[float] = field(default_factory=list)  # rates of all processes
    num_invalid: int = 0  # invalid processes in a row

    @property
    def interval(self) -> RateInterval:
        """The interval of the highest rate within the limit."""
        return rate_interval(self.probes, self.item.cell.server.percentile)

    @property
    def rate(self) -> float:
        """An estimate of the highest rate within the limit. If there is no probe yet, it is the offline throughput."""
        low, high, num_near = self.interval
        if low and high and num_near:
            return math.sqrt(low * high)
        if not self.probes:
            return self.offline
        by_rate = sorted(self.probes, key=lambda probe: probe.rate)
        near = [probe for probe in by_rate if probe.load <= 1][-1:] or by_rate[:1]
        # 1 / percentile falls about linearly with the rate. It is 0 where the queue grows.
        rate, load = near[0].rate, near[0].load
        beyond = [
            (probe.rate, probe.load) for probe in by_rate if probe.rate > rate and probe.load > 1 >= load
        ]
        # Too far apart for a line: latency may rise only shortly before.
        if beyond and beyond[0][0] > HALVED * rate:
            return math.sqrt(rate * beyond[0][0])
        far_rate, far_load = beyond[0] if beyond else (max(self.offline, OVERLOAD * rate), math.inf)
        return max(rate / 2, rate + (far_rate - rate) * (1 - load) / (1 - load / far_load))

    @property
    def is_close(self) -> bool:
        low, high, _ = self.interval
        return bool(low and high and high <= TOLERANCE * low and len(self.probes) >= MIN_JOINED)

    def next(self, left_s: float) -> tuple[float, float] | None:
        """Returns the rate and the seconds of the next probe. Returns None if it does not fit into `left_s`."""
        if not self.probes:
            rate = self.offline / 2
            seconds = FIRST_PART * left_s
        else:
            rate = self._unsure_rate or self._other_side()
            longest_s = max(probe.num / probe.rate for probe in self.probes)
            seconds = min(left_s / max(1, NUM_PROBES - len(self.probes)), LONGER * longest_s)
        seconds = max(min(seconds, MAX_REQUESTS / ROUNDED / rate), MIN_S, ROUNDED * self.num / rate)
        return None if seconds > left_s else (float(f"{rate:.3g}"), float(f"{seconds:.3g}"))

    @property
    def _unsure_rate(self) -> float | None:
        """The highest rate that kept the limit by far, if a rate surely fails, but none surely passes yet.

        A longer probe at this rate gives a lower bound. On a busy machine, slow requests come in long clusters, so that
        even a probe without misses may be too short for a sure pass.
        """
        low, high, _ = self.interval
        if low is not None or high is None:
            return None
        return max((probe.rate for probe in self.probes if probe.load < 1 / MAX_LOAD), default=None)

    def _other_side(self) -> float:
        """Returns a rate just below or just above the estimate of the highest rate.

        The rate is on the side on which fewer requests were sent. If no probe was near the limit, returns the estimate.
        """
        middle = self.rate
        distance = min(max(DISTANCE * (self.offline - middle), LEAST * middle), MOST * middle)
        near = [probe for probe in self.probes if 1 / MAX_LOAD < probe.load < MAX_LOAD]
        if not near:
            return middle
        is_above = sum(probe.num * (probe.rate - middle) for probe in near) < 0
        return middle + ABOVE * distance if is_above else middle - distance


def search(
    cells: Sequence[Cell], options: SweepOptions, budget_s: float, console: Console, hosts: Hosts
) -> int:
    """Searches for the highest rate of requests within the limit. Prints the answer, and returns the exit status.

    Each probe leaves a record, as in a sweep. Records of earlier searches in the same folder are used.

    Raises UserError: the search can't start or continue, and the user can solve the problem.
    """
    if len({work_of(cell).key_without(CHOSEN_SETTINGS) for cell in cells}) > 1:
        raise UserError(
            "--serve: the cells differ in what they serve, or in its limit: search one network at a time"
        )
    session = Session.begin(cells, options, console, hosts, kind="serve")
    session.of_search = True
    return _Search(session, cells, "--serve", budget_s).search()


class _Search(BaseSearch):
    """A search: its settings, and the records of their processes."""

    overhead_s = OVERHEAD_S
    is_done = False  # whether more time would not help

    def race(self) -> None:
        self.candidates: list[Candidate] = []  # the settings that may be probed
        for item in self.asked:
            if (offline := self._offline(item)) is not None:
                candidate = Candidate(item, offline, num_requests_for(item.cell.server.percentile))
                self.candidates.append(candidate)
                for record in self._earlier(item).values():
                    self._add(candidate, record)
        while left := [candidate for candidate in self.candidates if candidate.num_invalid < MAX_INVALID]:
            best = max(left, key=lambda candidate: candidate.rate)
            ask = best.next(self.ends_s - self.now() - self.overhead_s)
            if best.is_close:
                break
            if ask is None:
                return
            rate, seconds = ask
            server = replace(best.item.cell.server, rate=rate, duration_s=seconds)
            self._add(
                best, self._measure(self._process(best.item, repeat=best.tried.count(rate), server=server))
            )
        self.is_done = True

    def _add(self, candidate: Candidate, record: Record) -> None:
        server = record.cell.server
        serving = _serving(record)
        candidate.tried.append(server.rate)
        candidate.num_invalid += 1
        if serving is not None:
            candidate.probes.append(probe_of(serving, server))
            candidate.num_invalid = 0
        elif record.status not in (Status.ok, Status.invalid):
            candidate.num_invalid = MAX_INVALID

    def _earlier(self, item: Planned) -> dict[str, Record]:
        """Returns the records of this setting's probes, by name, if earlier searches in this folder made them."""
        probes = list[Planned]()
        for wanted in self.session.earlier:
            cell = replace(wanted.cell, timeout_s=item.cell.timeout_s)  # a record has the rest of its budget
            if setting_of(cell) == setting_of(item.cell):
                probes.append(self.ready.process(cell, wanted.label))
        records = self.earlier(probes)
        self.records |= records
        return records

    def _offline(self, item: Planned) -> float | None:
        """Measures the requests/s if all requests are issued at the start.

        Returns None if this can't be measured, or if even a lone request takes longer than the limit. A lone request
        takes no less time than a request takes on average when all workers compute full batches.
        """
        asked = item.cell.server
        server = Server(duration_s=FIRST_S, workers=asked.workers)
        serving = _serving(self._measure(self._process(item, protocol=Protocol.offline, server=server)))
        if serving is None or not serving.served_per_s:
            return None
        alone_ms = 1e3 / serving.served_per_s
        if alone_ms > asked.latency_ms:
            took = f"a request takes at least {significant(alone_ms)} ms"
            self.session.say(f"{item.label}: no rate keeps the limit of {asked.latency_ms:g} ms: {took}")
            return None
        return serving.served_per_s

    def _process(self, item: Planned, **changes: Any) -> Planned:
        """Plans a process. Its cell is the cell of `item` with the settings in `changes`."""
        cell = replace(item.cell, **changes)
        words = item.label.removeprefix(item.cell.label)
        return self.ready.process(cell, f"{cell.label}{words}-{cell.server.duration_s:g}s")

    def _measure(self, item: Planned) -> Record:
        """Returns the record of `item`. Measures it if neither this search nor an earlier one in this folder did."""
        if item.record_name in self.records:  # settings may share a process
            return self.records[item.record_name]
        record = self.earlier([item]).get(item.record_name)
        if record is None:
            left_s = self.ends_s - self.now()
            twice_s = 2 * (item.cell.server.duration_s + self.overhead_s)
            limit_s = max(twice_s, min(item.cell.timeout_s, left_s))
            record = self.session.measure(replace(item, cell=replace(item.cell, timeout_s=limit_s)), left_s)
            serving = _serving(record)
            if serving and item.cell.protocol == Protocol.server:
                self.overhead_s = record.wall_s - serving.duration_s
            if record.status not in UNEXPECTED:  # the session prints unexpected ones
                process = Process.of(record)
                text = disturbed_text(process) if process.disturbed else served_text(process.row)
                self.session.say(f"{item.label}: {text}, after {duration(record.wall_s)}")
        self.records[record.name] = record
        self.write_plan(self.records.values())
        return record

    def show(self) -> int:
        console = self.session.console
        folder = shown(self.session.folder)
        # Earlier searches count, as in the report. Answers about other work are left out.
        every = capacities(read.read(self.session.folder).cells)
        mine = [
            capacity.what
            for capacity in every
            if any(probe.process.name in self.records for probe in capacity.probes)
        ]
        ours = [capacity for capacity in every if capacity.what in mine]
        if ours:
            say(console, f"\n{ours[0].what}")
        for capacity in ours:  # the best setting first
            say(console, capacity.sentence)
        untried = [
            f"{candidate.item.label} ({significant(candidate.offline)})"
            for candidate in self.candidates
            if not candidate.tried
        ]
        if untried:
            say(console, f"Not probed (in brackets: requests/s if all arrive at once): {', '.join(untried)}")
        say(console, f"Records: {folder} ({duration(self.took_s())} of measuring)")
        if ours:
            say(console, f"The curve of rate and latency: accelbench report {folder}")
        if not self.is_done:
            say(console, f"To go on: run the same command with out={folder}; it has a new budget")
        if any(capacity.low for capacity in ours):
            return 0
        why = "The lines above have the reasons." if self.is_done else "A longer --budget may find one."
        say(console, f"No rate is surely within the limit. {why}")
        return 1


def _serving(record: Record) -> Serving | None:
    """Returns the statistics of a record's requests. Returns None if the process is not ok, or was disturbed."""
    is_fine = record.status == Status.ok and not why_disturbed(record)
    return record.measurement.serving if record.measurement and is_fine else None
