"""Finds the best of many cells within a budget of time: a race of short processes, with longer ones for the best."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from rich.console import Console

from accelbench.errors import UserError, writing_errors
from accelbench.grid.estimate import COMPILED_S, expected_s, needs
from accelbench.grid.plan import Planned, Prepared
from accelbench.isolation.hosts import Hosts
from accelbench.judging import disturbed
from accelbench.project import RECORDS, shown
from accelbench.schema.cell import CHOSEN_SETTINGS, Cell
from accelbench.schema.record import Record
from accelbench.schema.serialize import canonical_json
from accelbench.schema.vocab import SERVING, Engine, Precision, Protocol, Status
from accelbench.search.base import BaseSearch, search_alone
from accelbench.search.goal import Found, Goal, show
from accelbench.search.race import Race, Sample, Schedule
from accelbench.settings.config import SweepOptions
from accelbench.sweep.context import SweepContext

UNKNOWN_S = 1.0  # what a process is taken to last if nothing like it was measured here, and it compiles nothing
COMPILED_FIRST = (Engine.aotinductor,)  # engines that compile a network before a cell can start


def search(
    cells: Sequence[Cell],
    options: SweepOptions,
    goal: Goal,
    console: Console,
    hosts: Hosts,
    now: Callable[[], float] = time.monotonic,
) -> int:
    """Searches for the best of `cells`, prints the answer and returns the exit status.

    Every process has a record, as in a sweep, and those that are there already count. `now` is the clock of the budget,
    in seconds. Raises UserError: the search could not start, or not go on, for a reason that the user can mend.
    """
    context = SweepContext.begin(cells, options, console, hosts, kind="search")
    if len({cell.id for cell in cells}) < 2:
        raise UserError("--search: these settings make one cell: give lists of values, such as batch_size=1,8,32")
    if goal.needs_latency and any(cell.protocol == Protocol.fit for cell in cells):
        raise UserError("protocol=fit: times no single steps: search --by throughput, without --latency-ms")
    if served := {cell.protocol for cell in cells} & SERVING - {Protocol.offline}:
        raise UserError(f"protocol={min(served)}: --search compares speeds; --serve finds the highest rate")
    decides = "--search decides how many processes each cell gets"
    return search_alone(context, cells, decides, lambda ready: _Search(context, ready, goal, now))


class _Search(BaseSearch):
    """One search: the race of its cells, and their records."""

    def __init__(self, context: SweepContext, ready: Prepared, goal: Goal, now: Callable[[], float]) -> None:
        super().__init__(context, ready, goal.budget_s, now)
        # The cells as the user asked for them; the race has them by their positions. Equal costs are common where
        # nothing was measured yet: cells that need no compilation come first then.
        self.asked.sort(
            key=lambda item: (item.cell.options.compile or item.cell.engine in COMPILED_FIRST, item.cell.batch_size)
        )
        self.what, self.goal = f"{len(self.asked)} cells ({len(self.skipped)} skipped)", goal
        self.short = [goal.short(item.cell) for item in self.asked]
        limit = None if goal.latency_ms is None else math.log(goal.latency_ms)
        # Cells race against each other that do the same, with other settings that the user can choose.
        chosen = set(CHOSEN_SETTINGS) - ({"batch_size"} if goal.per_batch else set())
        work = [{k: v for k, v in item.cell.settings().items() if k not in chosen} for item in self.asked]
        race = Race(list(map(canonical_json, work)), goal.margin, limit=limit)
        self.found = Found(goal, race, [item.label for item in self.asked])
        self.records: list[tuple[int, bool, Record]] = self.found.records
        self.goes_on = any(context.folder.glob(RECORDS))  # from an earlier search
        self.ready_needs: set[tuple[object, ...]] = set()  # see `estimate.needs`: of the cells that have run

    def race(self) -> None:
        race = self.found.race
        try:
            first = [min(members, key=self._plainness) for members in race.groups.values()]
            Schedule(race, self._measure, self._cost_s, lambda: self.ends_s - self.now(), self.budget_s, first).run()
        finally:  # an interrupted search keeps what it tells too
            self._note_drops()
            if self.records:
                with writing_errors(f"out={shown(self.context.folder)}"):
                    self.found.file().write(self.context.folder)

    def show(self) -> int:
        return show(self.found, self.context.folder, self.context.console)

    def _plainness(self, i: int) -> tuple[object, ...]:
        """The least of each group is the baseline: plain PyTorch in fp32, which users run today, or what comes next."""
        cell = self.asked[i].cell
        return cell.engine != Engine.lightning, len(cell.options.enabled), cell.precision != Precision.fp32, i

    def _item(self, i: int, is_full: bool, repeat: int) -> Planned:
        asked = self.asked[i]
        cell = replace(asked.cell if is_full else self.short[i], repeat=repeat)
        return self.ready.process(cell, f"{asked.label}{'' if is_full else '-short'}{f'-r{repeat}' if repeat else ''}")

    def _next(self, i: int, is_long: bool) -> tuple[Planned, bool]:
        """The next process of a cell, and whether it measures the cell in full."""
        is_full = is_long or self.short[i] == self.asked[i].cell
        num = sum((j, of_full) == (i, is_full) for j, of_full, _ in self.records)
        return self._item(i, is_full, num), is_full

    def _cost_s(self, i: int, is_long: bool) -> float:
        if self.goes_on and self.is_there(self._next(i, is_long)[0]):
            return 0.0
        cell, evidence = self.asked[i].cell if is_long else self.short[i], self.session.evidence
        # Until its host has started, or its network was exported.
        is_ready = needs(cell) in self.ready_needs
        length = evidence.length(cell, waits=not is_ready)
        if not length.num_unknown:
            return length.seconds
        compiles = cell.options.compile or (cell.engine in COMPILED_FIRST and not is_ready)
        return COMPILED_S if compiles else max(UNKNOWN_S, expected_s(cell, 0.0, (0, 0)))

    def _measure(self, i: int, is_long: bool, left_s: float) -> Sample:
        self._note_drops()
        item, is_full = self._next(i, is_long)
        record = self.known([item]).get(item.record_name) if self.goes_on else None
        if record is None:
            limit_s = min(item.cell.timeout_s, max(1.0, left_s))
            record = self.session.measure(replace(item, cell=replace(item.cell, timeout_s=limit_s)), left_s)
            if record.measurement is not None:
                self.ready_needs.add(needs(self.asked[i].cell))
        sample = self.goal.sample(record, item.cell)
        if why := disturbed.reason(record):
            self.found.disturbed.append(why)
        elif not sample.is_cut:
            self.records.append((i, is_full, record))
            if is_full or sample.score is None:
                published = (record for _, is_full, record in self.records if is_full or record.status != Status.ok)
                self.write_plan(published)
        return sample

    def _note_drops(self) -> None:
        for i, candidate in enumerate(self.found.race.candidates):
            if candidate.was_tried and not candidate.is_in:
                self.found.dropped_after.setdefault(i, len(self.records))
