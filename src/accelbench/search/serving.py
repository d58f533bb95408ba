"""Finds the highest rate of requests within a latency limit, and its setting. Settings are probed at several rates."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rich.console import Console

from accelbench.answers.process import Process
from accelbench.answers.serving import Capacity, best_settings, capacities, probe_of, setting_of, work_of
from accelbench.answers.words import disturbed_text
from accelbench.grid.plan import Planned, Prepared
from accelbench.isolation.hosts import Hosts
from accelbench.judging.served import served_text
from accelbench.judging.verdict import why_disturbed
from accelbench.presentation import counted, duration, say, significant
from accelbench.project import shown
from accelbench.report import read
from accelbench.report.tables.table import Column, count, number, rendered, tabulate_known
from accelbench.schema.cell import CHOSEN_SETTINGS, Cell, Server
from accelbench.schema.measurement import Serving
from accelbench.schema.record import Record
from accelbench.schema.serialize import grouped
from accelbench.schema.vocab import UNEXPECTED, Protocol, Status
from accelbench.search.base import BaseSearch, search_alone
from accelbench.search.rates import MAX_INVALID, Candidate
from accelbench.settings.config import SweepOptions
from accelbench.stats.request_latencies import num_requests_for
from accelbench.sweep.context import SweepContext

FIRST_S = 2.0  # seconds of single requests, and then of all requests at once, to see what rates a setting can reach
OVERHEAD_S = 3.0  # assumed seconds of a process besides its requests, until a process was measured


def search(cells: Sequence[Cell], options: SweepOptions, budget_s: float, console: Console, hosts: Hosts) -> int:
    """Searches for the highest rate of requests within the limit. Prints the answer, and returns the exit status.

    Each probe leaves a record, as in a sweep. Records of earlier searches in the same folder are used.

    Raises UserError: the search can't start or continue, and the user can solve the problem.
    """
    context = SweepContext.begin(cells, options, console, hosts, kind="serve")
    context.of_search = True
    return search_alone(context, cells, "--serve", lambda ready: _Search(context, ready, budget_s))


class _Search(BaseSearch):
    """A search: its settings, and the records of their processes."""

    def __init__(self, context: SweepContext, ready: Prepared, budget_s: float) -> None:
        super().__init__(context, ready, budget_s)
        self.overhead_s, self.is_done = OVERHEAD_S, False
        self.candidates: list[Candidate] = []  # the settings that may be probed
        # Settings that do the same work are searched together.
        self.works = list(grouped(self.asked, lambda item: work_of(item.cell).key_without(CHOSEN_SETTINGS)).values())

    def race(self) -> None:
        num = len(self.works)
        self.is_done = all([self._race(items, num - i) for i, items in enumerate(self.works)])

    def _race(self, items: Sequence[Planned], num_left: int) -> bool:
        """Searches for the best of `items`, which do the same work. Returns whether the search finished.

        The time left is divided equally among the `num_left` searches that are not finished.
        """
        ends_s = self.now() + (self.ends_s - self.now()) / num_left
        racing = []
        for item in items:
            if (offline := self._offline(item, ends_s)) is not None:
                racing.append(Candidate(item, offline, num_requests_for(item.cell.server.percentile)))
                for record in self._earlier(item).values():
                    self._add(racing[-1], record)
        self.candidates += racing
        while left := [candidate for candidate in racing if candidate.num_invalid < MAX_INVALID]:
            best = max(left, key=lambda candidate: candidate.rate)
            if best.is_close:
                return True
            ask = best.next(ends_s - self.now() - self.overhead_s)
            if ask is None:
                return False
            rate, seconds = ask
            server = replace(best.item.cell.server, rate=rate, duration_s=seconds)
            item = self._process(best.item, repeat=best.tried.count(rate), server=server)
            self._add(best, self._measure(item, ends_s))
        return not racing

    def _add(self, candidate: Candidate, record: Record) -> None:
        server = record.cell.server
        serving = _serving(record)
        candidate.tried.append(server.rate)
        candidate.longest_s = max(candidate.longest_s, server.duration_s)
        candidate.num_invalid += 1
        if serving is not None:
            candidate.probes.append(probe_of(serving, server))
            candidate.num_invalid = 0
        elif record.status not in (Status.ok, Status.invalid):
            candidate.num_invalid = MAX_INVALID

    def _earlier(self, item: Planned) -> dict[str, Record]:
        """Returns the records of this setting's probes, by name, if earlier searches in this folder made them."""
        probes = list[Planned]()
        for wanted in self.context.earlier:
            cell = replace(wanted.cell, timeout_s=item.cell.timeout_s)  # a record has the rest of its budget
            if setting_of(cell) == setting_of(item.cell):
                probes.append(self.ready.process(cell, wanted.label))
        records = self.earlier(probes)
        self.records |= records
        return records

    def _offline(self, item: Planned, ends_s: float) -> float | None:
        """Measures the requests/s if all requests are issued at the start.

        Returns None if this can't be measured, or if even a single request takes longer than the limit.
        """
        asked = item.cell.server
        server = Server(duration_s=FIRST_S, workers=item.cell.server.workers)
        single = self._process(item, protocol=Protocol.single_stream, batch_size=1, server=replace(server, workers=1))
        serving = _serving(self._measure(single, ends_s))
        for quantile in serving.latencies if serving else ():
            if quantile.percentile <= asked.percentile and 1e3 * (quantile.low or 0.0) > asked.latency_ms:
                took = f"took {significant(1e3 * (quantile.seconds or 0.0))} ms (p{quantile.percentile:g})"
                self.context.say(
                    f"{item.label}: no rate keeps the limit of {asked.latency_ms:g} ms: "
                    f"even one request at a time {took}"
                )
                return None
        serving = _serving(self._measure(self._process(item, protocol=Protocol.offline, server=server), ends_s))
        return serving.served_per_s if serving else None

    def _process(self, item: Planned, **changes: Any) -> Planned:
        """Plans a process. Its cell is the cell of `item` with the settings in `changes`."""
        cell = replace(item.cell, **changes)
        words = item.label.removeprefix(item.cell.label)
        return self.ready.process(cell, f"{cell.label}{words}-{cell.server.duration_s:g}s")

    def _measure(self, item: Planned, ends_s: float) -> Record:
        """Returns the record of `item`. Measures it if neither this search nor an earlier one in this folder did."""
        if item.record_name in self.records:  # settings may share a process
            return self.records[item.record_name]
        record = self.earlier([item]).get(item.record_name)
        if record is None:
            left_s = ends_s - self.now()
            twice_s = 2 * (item.cell.server.duration_s + self.overhead_s)
            limit_s = max(twice_s, min(item.cell.timeout_s, left_s))
            record = self.session.measure(replace(item, cell=replace(item.cell, timeout_s=limit_s)), left_s)
            serving = _serving(record)
            if serving and item.cell.protocol == Protocol.server:
                self.overhead_s = record.wall_s - serving.duration_s
            if record.status not in UNEXPECTED:  # the session prints unexpected ones
                process = Process.of(record)
                text = disturbed_text(process) if process.disturbed else served_text(process.row)
                self.context.say(f"{item.label}: {text}, after {duration(record.wall_s)}")
        self.records[record.name] = record
        self.write_plan(self.records.values())
        return record

    def show(self) -> int:
        console = self.context.console
        folder = shown(self.context.folder)
        # Earlier searches count, as in the report. Answers about other work are left out.
        every = capacities(read.read(self.context.folder).cells)
        mine = {
            capacity.what for capacity in every if any(probe.process.name in self.records for probe in capacity.probes)
        }
        ours = [capacity for capacity in every if capacity.what in mine]
        for best in best_settings(ours):
            say(console, f"\n{best.what}: {best.sentence}")
            of_work = [capacity for capacity in ours if capacity.what == best.what]
            if (table := tabulate_known("", COLUMNS, of_work)) is not None:
                console.print(rendered(table, console.width))
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
        num_lacking = len(self.works) - len({capacity.what for capacity in ours if capacity.low})
        if self.works and num_lacking <= 0:
            return 0
        lacking = f"{num_lacking} of {counted(len(self.works), 'workload')}"
        say(console, f"No rate is surely within the limit for {lacking}. The lines above have the reasons.")
        return 1


COLUMNS = [
    Column[Capacity]("setting", lambda capacity: capacity.setting),
    Column("requests/s", lambda capacity: capacity.rates_text),
    Column("", lambda capacity: capacity.how_sure),
    Column("p99 near it (ms)", "request_p99_ms", number),
    Column("mean batch", "mean_batch", number),
    Column("probes", lambda capacity: len(capacity.probes), count),
]


def _serving(record: Record) -> Serving | None:
    """Returns the statistics of a record's requests. Returns None if the process is not ok, or was disturbed."""
    is_fine = record.status == Status.ok and not why_disturbed(record)
    return record.measurement.serving if record.measurement and is_fine else None
