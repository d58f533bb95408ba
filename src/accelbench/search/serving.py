"""Finds how many requests per second are served within a limit, and with which settings: a race of probes."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from rich.console import Console

from accelbench.answers.serving import Capacity, best_settings, capacities, setting_of, work_of
from accelbench.grid.plan import Planned, Prepared
from accelbench.isolation.hosts import Hosts
from accelbench.judging.verdict import why_disturbed
from accelbench.presentation import counted, duration, say, significant
from accelbench.project import shown
from accelbench.report import read
from accelbench.report.tables.table import Column, count, number, rendered, tabulate_known
from accelbench.schema.cell import CHOSEN_SETTINGS, Cell, Server
from accelbench.schema.measurement import Serving
from accelbench.schema.record import Record
from accelbench.schema.serialize import canonical_json
from accelbench.schema.vocab import UNEXPECTED, Protocol, Status, Verdict
from accelbench.search.base import BaseSearch, search_alone
from accelbench.search.rates import NUM_REQUESTS, Candidate, Probed, RateRace
from accelbench.settings.config import SweepOptions
from accelbench.stats.regenerative import num_requests_for
from accelbench.sweep.context import SweepContext
from accelbench.sweep.terminal import outcome

FIRST_S = 2.0  # of requests one after another, and of all at once: what a setting may be able to do
MAX_LATE = 3  # processes of a setting in a row whose requests came late, as beside neighbours: then none is run again
OVERHEAD_S = 3.0  # of a process beyond its requests, until one was measured


def search(
    cells: Sequence[Cell],
    options: SweepOptions,
    budget_s: float,
    console: Console,
    hosts: Hosts,
    now: Callable[[], float] = time.monotonic,
) -> int:
    """Searches for the most requests per second within the cells' limit, prints the answer, returns the exit status.

    Each probe has a record as a cell of a sweep has, and those that are there already count. `now` is the clock of the
    budget, in seconds. Raises UserError: the search could not start or go on, for a reason that the user can mend.
    """
    context = SweepContext.begin(cells, options, console, hosts, kind="serve")
    context.of_search = True
    decides = "--serve decides how many processes each rate gets"
    return search_alone(context, cells, decides, lambda ready: _Search(context, ready, budget_s, now))


class _Search(BaseSearch):
    """One search: the races of its settings, and the records of their processes."""

    def __init__(self, context: SweepContext, ready: Prepared, budget_s: float, now: Callable[[], float]) -> None:
        super().__init__(context, ready, budget_s, now)
        self.what = counted(len(self.asked), "setting")
        self.overhead_s, self.is_done, self.has_probed = OVERHEAD_S, False, False
        self.records: dict[str, Record] = {}  # by name
        self.num_works = 0  # that are asked for
        self.num_racing, self.unprobed = 0, list[str]()  # settings that may be probed; a line for each that never was

    def race(self) -> None:
        works: dict[str, list[Planned]] = {}  # settings race against each other that do the same
        for item in self.asked:
            work = {name: v for name, v in work_of(item.cell).settings().items() if name not in CHOSEN_SETTINGS}
            works.setdefault(canonical_json(work), []).append(item)
        self.num_works = len(works)
        self.is_done = all([self._race(items, len(works) - i) for i, items in enumerate(works.values())])

    def _race(self, items: Sequence[Planned], num_left: int) -> bool:
        """Whether the race of one group is decided. It takes at most its part of the time that all groups left have."""
        ends_s = self.now() + (self.ends_s - self.now()) / num_left
        offline = {i: rate for i, item in enumerate(items) if (rate := self._offline(item, ends_s)) is not None}
        racing, percentile = [items[i] for i in offline], items[0].cell.server.percentile
        self.num_racing += len(racing)
        num_late = [0] * len(racing)  # in a row
        num = max(NUM_REQUESTS, 2 * num_requests_for(percentile))

        def process_of(i: int, rate: float, seconds: float, repeat: int) -> Planned:
            server = replace(racing[i].cell.server, rate=rate, duration_s=seconds)
            return self._process(racing[i], repeat=repeat, server=server)

        def measure(i: int, rate: float, seconds: float, repeat: int) -> Probed | None:
            num = 0
            while True:
                record = self._measure(process_of(i, rate, seconds, repeat + num), ends_s)
                num, num_late[i] = num + 1, num_late[i] + 1 if _is_late(record) else 0
                left_s = ends_s - self.now() - race.kept_s
                if not 0 < num_late[i] < MAX_LATE or cost_s(i, rate, seconds, repeat + num) > left_s:
                    break
                self.context.say(f"Nothing else was wrong: once more with another seed, at most {MAX_LATE - 1} times")
            if record.status not in (Status.ok, Status.invalid):
                return None
            return _probed(record, num)

        def cost_s(*ask: Any) -> float:
            item = process_of(*ask)
            return 0.0 if self.is_there(item) else item.cell.server.duration_s + self.overhead_s

        candidates = [Candidate(rate, num, self._earlier(racing[i])) for i, rate in enumerate(offline.values())]
        race = RateRace(candidates, measure, cost_s, lambda: ends_s - self.now())
        is_done = race.run() or not racing
        best = max([each.bounds[0] or 0.0 for each in candidates], default=0.0)
        for item, each in zip(racing, candidates, strict=True):
            below = f"offline {significant(each.offline)} requests/s is below the best"
            why = below if each.offline <= best else "no time was left"
            self.unprobed += [] if each.probed or each.has_failed else [f"{item.label}: not probed: {why}"]
        return is_done

    def _earlier(self, item: Planned) -> list[Probed]:
        """What probes of earlier searches in this folder told."""
        found, setting = list[Planned](), setting_of(item.cell)
        for each in self.context.earlier:
            cell = replace(each.cell, timeout_s=item.cell.timeout_s)  # theirs was what was left of the budget
            found += [self.ready.process(cell, each.label)] if setting_of(cell) == setting else []
        records = self.known(found)
        self.records |= records
        return [_probed(each, each.cell.repeat + 1) for each in records.values()]

    def _offline(self, item: Planned, ends_s: float) -> float | None:
        """Requests/s if all are there at once. None: that can't be measured, or a request alone misses the limit."""
        asked, server = item.cell.server, Server(duration_s=FIRST_S, workers=item.cell.server.workers)
        single = self._process(item, protocol=Protocol.single_stream, batch_size=1, server=replace(server, workers=1))
        serving = _serving(self._measure(single, ends_s))
        for each in serving.latencies if serving else ():
            if each.percentile <= asked.percentile and 1e3 * (each.low or 0.0) > asked.latency_ms:
                took = f"took {significant(1e3 * (each.seconds or 0.0))} ms (p{each.percentile:g})"
                self.context.say(
                    f"{item.label}: no rate is within {asked.latency_ms:g} ms: requests one after another {took}"
                )
                return None
        serving = _serving(self._measure(self._process(item, protocol=Protocol.offline, server=server), ends_s))
        return serving.served_per_s if serving else None

    def _process(self, item: Planned, **changes: Any) -> Planned:
        """A process of a setting; its name has the setting's words, with its own rate."""
        cell = replace(item.cell, **changes)
        words = item.label.removeprefix(item.cell.label)
        return self.ready.process(cell, f"{cell.label}{words}-{cell.server.duration_s:g}s")

    def _measure(self, item: Planned, ends_s: float) -> Record:
        """The record of a process: of this search, of an earlier one in this folder, or of a new process."""
        if item.record_name in self.records:  # settings may share it
            return self.records[item.record_name]
        record = self.known([item]).get(item.record_name)
        if record is None:
            left_s = ends_s - self.now()
            twice_s = 2 * (item.cell.server.duration_s + self.overhead_s)
            limit_s = max(twice_s, min(item.cell.timeout_s, left_s))
            if not self.context.console.is_terminal:  # which shows what is under way
                self.context.say(f"{item.label} ...")
            record = self.session.measure(replace(item, cell=replace(item.cell, timeout_s=limit_s)), left_s)
            self.has_probed |= item.cell.protocol == Protocol.server
            if (serving := _serving(record)) is not None and item.cell.protocol == Protocol.server:
                self.overhead_s = record.wall_s - serving.duration_s
            if record.status not in UNEXPECTED:  # else the session has said it
                words = ", ".join(map(str.strip, outcome(record)))
                self.context.say(f"{item.label}: {words}, after {duration(record.wall_s)}")
        self.records[record.name] = record
        self.write_plan(self.records.values())
        return record

    def show(self) -> int:
        console, folder = self.context.console, shown(self.context.folder)
        # Earlier searches count, as in the report; the answers about what others did are left out.
        found = capacities(read.read(self.context.folder).cells)
        mine = {each.what for each in found for probe in each.probes if probe.process.name in self.records}
        found = [each for each in found if each.what in mine]
        for best in best_settings(found):
            say(console, f"\n{best.what}: {best.sentence}")
            if (table := tabulate_known("", COLUMNS, [each for each in found if each.what == best.what])) is not None:
                console.print(rendered(table, console.width))
        for line in self.unprobed:
            say(console, line)
        took_s = sum(record.wall_s for record in self.records.values())
        say(console, f"Records: {folder} ({duration(took_s)} of measuring)")
        if found:
            say(console, f"The curve of rate and latency: accelbench report {folder}")
        if not self.is_done:
            budget = ", which has a new budget then" if self.has_probed else " and a longer --budget: no probe fitted"
            say(console, f"To go on: the same command with out={folder}{budget}")
        num_lacking = self.num_works - len({each.what for each in found if each.low})
        if self.num_works and num_lacking <= 0:
            return 0
        if not self.is_interrupted:
            of = f" for {num_lacking} of {counted(self.num_works, 'workload')}" if self.num_works > 1 else ""
            why = f"no rate is surely within the limit, {found[0].limit_text}" if found else self._why_none()
            say(console, f"No rate to serve at{of}, so the exit status is 1: {why}")
        return 1

    def _why_none(self) -> str:
        records = list(self.records.values())
        tried = [each for each in records if each.cell.protocol == Protocol.server] or records
        if bad := [each for each in tried if not _serving(each)]:
            why = bad[0].reason or why_disturbed(bad[0])
            return f"{len(bad)} of {counted(len(tried), 'record')} not ok, such as {why}"
        if records and not self.num_racing:
            return "no setting answers even a request alone within the limit: use a higher --latency-ms"
        return "no probe has ended: use a longer --budget" if records else "every setting was skipped"


COLUMNS = [
    Column[Capacity]("setting", lambda each: each.setting),
    Column("requests/s", lambda each: each.rates_text),
    Column("", lambda each: each.how_sure),
    Column("p99 there (ms)", "request_p99_ms", number),
    Column("mean batch", "mean_batch", number),
    Column("probes", lambda each: len(each.probes), count),
]


def _serving(record: Record) -> Serving | None:
    """What an ok and undisturbed process served."""
    is_fine = record.status == Status.ok and not why_disturbed(record)
    return record.measurement.serving if record.measurement and is_fine else None


def _probed(record: Record, num_processes: int) -> Probed:
    """What a probe told; its percentile is infinitely above the limit if too many requests had no answer."""
    serving, asked = _serving(record), record.cell.server
    told = dict[str, Any]()
    if serving is not None and serving.num_missed is not None:
        known = [each.seconds for each in serving.latencies if each.percentile == asked.percentile and each.seconds]
        has_failed = serving.num_missed > (1 - asked.percentile / 100) * serving.num_requests
        load = 1e3 * known[0] / asked.latency_ms if known else math.inf if has_failed else 1.0
        told = {"verdict": serving.verdict or Verdict.unknown, "load": load}
    return Probed(rate=asked.rate, seconds=asked.duration_s, num_processes=num_processes, **told)


def _is_late(record: Record) -> bool:
    """Whether all that is wrong is that requests were issued late: another moment may be quieter."""
    measured = record.measurement
    return bool(measured and measured.serving and measured.serving.is_late and len(measured.defects) == 1)
