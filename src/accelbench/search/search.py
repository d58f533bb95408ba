"""Finds the best of many cells within a budget of time: a race of short processes, with full ones of the last two."""

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median

from rich.console import Console

from accelbench.answers.process import Process
from accelbench.answers.words import environment_names, short_text, speed_unit, workload_text
from accelbench.compare.record_sets import ComparedProcess
from accelbench.errors import UserError, writing_errors
from accelbench.grid.plan import Planned, Prepared
from accelbench.isolation.hosts import Hosts
from accelbench.judging.row import summarise
from accelbench.judging.verdict import why_disturbed
from accelbench.presentation import and_more, duration, say, significant
from accelbench.project import shown
from accelbench.report.tables.table import Column, Table, count, number, rendered, tabulate_known, word
from accelbench.schema.cell import CHOSEN_SETTINGS, Cell, Window
from accelbench.schema.plan_file import RacedCell, RacedProcess, RaceFile, RaceOutcome
from accelbench.schema.record import Record
from accelbench.schema.serialize import canonical_json, grouped
from accelbench.schema.vocab import SERVING, Engine, Precision, Protocol, Status
from accelbench.search.base import BaseSearch, search_alone
from accelbench.search.race import Candidate, Race
from accelbench.settings.config import SweepOptions
from accelbench.sweep.context import SweepContext

MAX_CELLS = 8  # of a table
MAX_NAMED = 6  # cells that were not tried
BEST = {"throughput": "fastest", "latency": "least latency", "energy": "least energy"}
# What a search may look for -> the unit of its values. More throughput is better, and less of the others.
UNITS = {"throughput": "samples/s", "latency": "ms", "energy": "J/sample"}
# Enough to tell cells apart that differ by a few per cent; of slow steps, a first one and another one.
SHORT = Window(warmup_steps=0, warmup_s=0.05, measure_s=0.1, block_s=0.02, latency_s=0.05, latency_steps=50)
UNKNOWN_S = 1.0  # what a process is taken to last if nothing like it was measured here


@dataclass(frozen=True)
class Goal:
    """What a search looks for."""

    by: str  # one of `UNITS`
    latency_ms: float | None  # the longest median step of a cell that may be the best; None for no limit
    margin: float  # by which share cells that are the same may differ
    budget_s: float
    per_batch: bool  # whether each batch size has a best cell of its own

    def short(self, cell: Cell) -> Cell:
        """The cell in a short window; the same cell if its protocol has no window, or energy needs all of it."""
        if cell.protocol != Protocol.window or self.by == "energy":
            return cell
        return replace(cell, window=SHORT, breakdown_s=0.0, budget_s=0.0, save_weights=False)

    def value(self, record: Record) -> float | None:
        """Samples/s, ms of the median step, or J/sample; None unless it is ok and whole. Raises UserError."""
        measured = record.measurement
        if record.status != Status.ok or measured is None or measured.is_partial:
            return None
        if self.by == "throughput":
            return median(measured.steady_rates)
        if self.by == "latency":
            return _latency_ms(record)
        joules = summarise(record)["energy_j_per_sample"]
        if not isinstance(joules, float):
            raise UserError(f"--by energy: no counter of energy here covers {record.label}")
        return joules

    def turned(self, value: float) -> float:
        """A value as one of which more is better, and back."""
        return value if self.by == "throughput" else 1 / value


def _latency_ms(record: Record) -> float | None:
    steps = record.measurement.latency_s if record.measurement else []
    return 1e3 * median(steps) if steps else None


@dataclass
class _Group(Race):
    """The race of the cells that do the same, and what it has found."""

    goal: Goal

    @property
    def known(self) -> list[Process]:
        """The last process of each cell that has one."""
        return [each.process for each in self.candidates if each.process]

    @property
    def name(self) -> str:
        """What the cells do, with their batch size if each has a best cell of its own."""
        if not self.known:
            return self.candidates[0].item.label
        batch = f", batch {self.known[0].cell.batch_size}" if self.goal.per_batch else ""
        return f"{workload_text(self.known[0])}{batch}"

    @property
    def untried(self) -> list[str]:
        return [each.item.label for each in self.candidates if each.outcome == RaceOutcome.untried]

    def outcome(self, candidate: Candidate) -> RaceOutcome:
        """What became of a cell."""
        if candidate is self.leader:
            return RaceOutcome.best if self.is_decided else RaceOutcome.leads
        ratio = self.ratio if candidate.outcome == RaceOutcome.left else None
        is_beaten = ratio and ratio.verdict(self.margin) == "faster"
        return RaceOutcome.dropped if is_beaten else candidate.outcome

    def value(self, candidate: Candidate) -> float | None:
        """That of the cell's processes, in the goal's unit; None if none gave a number."""
        return self.goal.turned(candidate.value) if candidate.short else None

    def sentences(self) -> Iterator[str]:
        """What is best, how sure that is, and which cells were not tried."""
        leader = self.leader
        if leader is None:
            yield f"{self.name}: no cell within the limits was measured often enough to recommend it."
        else:
            so_far = "" if self.is_decided else "so far "
            value = f"{significant(self._shown_value(leader))} {self._unit[1]}"
            yield f"{self.name}: {so_far}{BEST[self.goal.by]} with {self._text(leader)}: {value}"
            counts = Counter(self.outcome(each) for each in self.candidates).most_common()
            yield f"{self._lead()}. Cells: {', '.join(f'{num:,} {outcome}' for outcome, num in counts)}."
        if self.untried:
            more = f" {and_more(num, 'cell')}" if (num := len(self.untried) - MAX_NAMED) > 0 else ""
            yield f"Not tried: {', '.join(self.untried[:MAX_NAMED])}{more}."

    def _lead(self) -> str:
        """How much better the leader is than the next cell, and how sure that is."""
        ratio, left = self.ratio, self.left
        if ratio is None:
            return "No other cell is left"
        how_sure = "can't tell: too few processes in full"
        if ratio.low is not None:
            verdict = ratio.verdict(self.margin)
            sureness = verdict if verdict in ("same", "can't tell") else "sure"
            how_sure = f"{sureness}: {significant(ratio.low)} to {significant(ratio.high)} times"
        good = "economical" if self.goal.by == "energy" else "fast"
        times = left[0].value / left[1].value
        return f"It is {significant(times)} times as {good} as {self._text(left[1])} ({how_sure})"

    def _text(self, candidate: Candidate) -> str:
        assert candidate.process
        has_engines = len({each.cell.engine for each in self.known}) > 1
        environment = environment_names(self.known).get(candidate.process.measured_key)
        return short_text(candidate.process, has_engines=has_engines, environment=environment)

    @property
    def _unit(self) -> tuple[int, str]:
        """How many of the unit that is shown a value has, and the unit."""
        is_speed = self.known and self.goal.by == "throughput"
        return speed_unit(self.known[0].cell) if is_speed else (1, UNITS[self.goal.by])

    def _shown_value(self, candidate: Candidate) -> float | None:
        value = self.value(candidate)
        return value and self._unit[0] * value

    def table(self) -> Table | None:
        """The leader, and then the others by their values."""
        columns = [
            Column[Candidate]("with", lambda each: word(self._text(each))),
            Column(self._unit[1], lambda each: number(self._shown_value(each))),
            Column("processes", lambda each: count(len(each.short + each.full))),
            Column("", lambda each: word(self.outcome(each))),
        ]
        measured = [each for each in self.candidates if each.short and each.outcome != RaceOutcome.over]
        measured.sort(key=lambda each: (each is not self.leader, -each.value))
        return tabulate_known("", columns, measured[:MAX_CELLS])


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
    if (goal.by == "latency" or goal.latency_ms) and any(cell.protocol == Protocol.fit for cell in cells):
        raise UserError("protocol=fit: times no single steps: search --by throughput, without --latency-ms")
    if served := {cell.protocol for cell in cells} & SERVING - {Protocol.offline}:
        raise UserError(f"protocol={min(served)}: --search compares speeds; --serve finds the highest rate")
    return search_alone(
        context,
        cells,
        "--search decides how many processes each cell gets",
        lambda ready: _Search(context, ready, goal, now),
    )


class _Search(BaseSearch):
    """One search: the races of its cells, and their records."""

    race_ends_s: float  # of the race that runs

    def __init__(self, context: SweepContext, ready: Prepared, goal: Goal, now: Callable[[], float]) -> None:
        super().__init__(context, ready, goal.budget_s, now)
        self.what, self.goal = f"{len(self.asked)} cells ({len(self.skipped)} skipped)", goal
        self.records: list[tuple[Candidate, bool, Record]] = []  # with whether the cell was measured in full
        self.disturbed: list[str] = []  # what disturbed processes that do not count
        # Cells race against each other that do the same, with other settings that the user can choose.
        chosen = dict.fromkeys(CHOSEN_SETTINGS)
        if goal.per_batch:
            del chosen["batch_size"]

        def work(item: Planned) -> str:
            return canonical_json(item.cell.settings() | chosen)

        self.groups = [
            _Group(
                [*map(Candidate, items)],
                goal.margin,
                goal.latency_ms or math.inf,
                self._measure,
                self._cost_s,
                self._left_s,
                goal,
            )
            for items in grouped(sorted(self.asked, key=_plainness), work).values()
        ]

    def race(self) -> None:
        try:
            for i, group in enumerate(self.groups):  # each has its part of the time that all have left
                self.race_ends_s = self.now() + (self.ends_s - self.now()) / (len(self.groups) - i)
                group.run()
        finally:  # an interrupted search keeps what it tells too
            if self.records:
                with writing_errors(f"out={shown(self.context.folder)}"):
                    self._file().write(self.context.folder)

    def _left_s(self) -> float:
        return self.race_ends_s - self.now()

    def _took_s(self) -> float:
        return sum(record.wall_s for _, _, record in self.records)

    def _file(self) -> RaceFile:
        """The contents of race.json."""
        cells = {
            each: RacedCell(
                label=each.item.label, group=group.name, outcome=group.outcome(each), value=group.value(each)
            )
            for group in self.groups
            for each in group.candidates
        }
        numbers = [*cells]
        processes = [
            RacedProcess(
                record=record.name,
                cell=numbers.index(candidate),
                is_full=is_full,
                value=self.goal.value(record),
                took_s=record.wall_s,
            )
            for candidate, is_full, record in self.records
        ]
        return RaceFile(
            by=self.goal.by,
            margin=self.goal.margin,
            took_s=self._took_s(),
            answers=[line for group in self.groups for line in group.sentences()],
            cells=[*cells.values()],
            processes=processes,
        )

    def show(self) -> int:
        """Raises UserError: no cell was tried."""
        console, folder = self.context.console, shown(self.context.folder)
        if self.groups and not self.records:
            if self.disturbed:
                raise UserError(f"every process was disturbed ({self.disturbed[0]}): search on a quiet machine")
            raise UserError(f"--budget: {self.budget_s:g} s is too short to measure one cell: give it more")
        for group in self.groups:
            console.print()
            for line in group.sentences():
                say(console, line)
            if (table := group.table()) is not None:
                console.print(rendered(table, console.width))
        if self.disturbed:
            num = f"{len(self.disturbed):,} ({self.disturbed[0]})"
            say(console, f"Processes that were disturbed, and do not count: {num}", "yellow")
        say(console, f"Records: {folder} ({len(self.records)} processes, {duration(self._took_s())})")
        say(console, f"A page to share: accelbench report {folder}")
        if any(group.untried or not group.is_decided for group in self.groups):
            say(console, f"To go on: the same command with out={folder}, which has a new budget then")
        return 0 if all(group.leader for group in self.groups) else 1

    def _next(self, candidate: Candidate, is_long: bool) -> tuple[Planned, bool]:
        """The next process of a cell, and whether it measures the cell in full."""
        asked = candidate.item
        cell = asked.cell if is_long else self.goal.short(asked.cell)
        is_full = cell == asked.cell
        repeat = sum((each, of_full) == (candidate, is_full) for each, of_full, _ in self.records)
        label = f"{asked.label}{'' if is_full else '-short'}{f'-r{repeat}' if repeat else ''}"
        return self.ready.process(replace(cell, repeat=repeat), label), is_full

    def _cost_s(self, candidate: Candidate, is_long: bool) -> float:
        item, _ = self._next(candidate, is_long)
        if self.is_there(item):
            return 0.0
        return self.session.evidence.length(item.cell).seconds or UNKNOWN_S

    def _measure(self, candidate: Candidate, is_long: bool, left_s: float) -> ComparedProcess | None:
        item, is_full = self._next(candidate, is_long)
        record = self.known([item]).get(item.record_name)
        if record is None:
            limit_s = min(item.cell.timeout_s, max(1.0, left_s))
            record = self.session.measure(replace(item, cell=replace(item.cell, timeout_s=limit_s)), left_s)
        if why := why_disturbed(record):
            self.disturbed.append(why)
            return None
        if record.was_cut(item.cell.timeout_s):
            return None
        value = self.goal.value(record)
        rates = [] if value is None else [self.goal.turned(value)]
        candidate.process = Process.of(record)
        self.records.append((candidate, is_full, record))
        if is_full or not rates:
            self.write_plan(record for _, is_full, record in self.records if is_full or record.status != Status.ok)
        candidate.limited.append(_latency_ms(record) or 0.0)
        return replace(ComparedProcess.of(record), rates=rates)


def _plainness(item: Planned) -> tuple[object, ...]:
    """The least of a group is its baseline: plain PyTorch in fp32, which users run today, or what comes next."""
    cell = item.cell
    return cell.engine != Engine.pytorch, len(cell.options.enabled), cell.precision != Precision.fp32, cell.batch_size
