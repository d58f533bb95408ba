"""Finds the best of many cells within a budget of time: successive halving, and then an interval for the last two.

Every cell gets one short process. In rounds, the slower half drops out, and those that are left get another short
process (successive halving: Jamieson and Talwalkar, AISTATS 2016). The last two are measured in full, interleaved,
until the verdict of a comparison (docs/comparing.md) is known.
"""

import math
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from statistics import geometric_mean, median

from rich.console import Console

from accelbench.answers.words import speed_unit
from accelbench.compare.record_sets import ComparedProcess
from accelbench.compare.sureness import MIN_PROCESSES, SpeedRatio, Verdict, compare_processes
from accelbench.errors import UserError, writing_errors
from accelbench.grid.plan import Planned, Prepared
from accelbench.isolation.hosts import Hosts
from accelbench.judging.row import summarise
from accelbench.judging.verdict import why_disturbed
from accelbench.presentation import and_more, duration, say, significant
from accelbench.project import shown
from accelbench.schema.cell import CHOSEN_SETTINGS, Cell, Window
from accelbench.schema.plan_file import RacedCell, RacedProcess, RaceFile, RaceOutcome
from accelbench.schema.record import Record
from accelbench.schema.serialize import grouped
from accelbench.schema.vocab import SERVING, Engine, Precision, Protocol, Status
from accelbench.search.base import BaseSearch, Clock, search_alone
from accelbench.settings.config import SweepOptions
from accelbench.sweep.context import SweepContext

NUM_LAST = 2  # cells that are compared
NUM_FEW, MIN_SHORT = 8, 3  # so few cells first get so many short processes, of which one may be slow by chance
MIN_LEAD = 3  # processes of a cell that is recommended
LOOKS = [MIN_PROCESSES * 2**i for i in range(10)]  # full processes of a cell: more looks would find chance differences
KEPT_SHARE = 0.4  # of the time is kept from the first processes for the rounds and the comparison
MAX_NAMED = 6  # cells that were not tried
UNKNOWN_S = 1.0  # what a process is taken to last if nothing like it was measured here
BEST = {"throughput": "fastest", "latency": "least latency", "energy": "least energy"}
# What a search may look for -> the unit of its values. More throughput is better, and less of the others.
UNITS = {"throughput": "samples/s", "latency": "ms", "energy": "J/sample"}
# Enough to tell cells apart that differ by a few per cent; of slow steps, a first one and another one.
SHORT = Window(warmup_steps=0, warmup_s=0.05, measure_s=0.1, block_s=0.02, latency_s=0.05, latency_steps=50)


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


@dataclass(eq=False)
class Candidate:
    """A cell in the race."""

    item: Planned
    outcome: RaceOutcome = RaceOutcome.untried
    # The only rate of each process is the value that is to be large.
    short: list[ComparedProcess] = field(default_factory=list)
    full: list[ComparedProcess] = field(default_factory=list)
    latencies_ms: list[float] = field(default_factory=list)  # of the median step in each process

    @property
    def value(self) -> float:
        """The geometric mean of full processes, as in a comparison; the median of short ones."""
        if self.full:
            return geometric_mean([process.rates[0] for process in self.full])
        return median([process.rates[0] for process in self.short])


@dataclass
class Race:
    """The race of cells that do the same, of which the first is tried before all others."""

    candidates: Sequence[Candidate]
    goal: Goal

    def run(self) -> Iterator[tuple[Candidate, bool]]:
        """Yields the cell that gets the next process, and whether that is to be a full one, until the best is known."""
        for candidate in self.candidates:
            yield candidate, False
        generator = random.Random(0)
        while len(left := self.left) > NUM_LAST:
            if len(left) > NUM_FEW or max(len(each.short) for each in left) >= MIN_SHORT:
                half = math.ceil(len(left) / 2)
                for candidate in left[half:]:
                    candidate.outcome = RaceOutcome.dropped
                del left[half:]
            generator.shuffle(left)  # so that drift of the machine affects all alike
            for candidate in left:
                yield candidate, False
        while left := self.left:
            if min(len(each.full) for each in left) in LOOKS and self.is_decided:
                return
            for candidate in self.candidates:  # in the same order again
                if candidate in left:
                    yield candidate, True

    def add(self, candidate: Candidate, is_full: bool, process: ComparedProcess) -> None:
        """Takes the result of a process; without rates, it failed."""
        candidate.outcome = RaceOutcome.failed
        if process.rates:
            (candidate.full if is_full else candidate.short).append(process)
            is_over = median(candidate.latencies_ms) > (self.goal.latency_ms or math.inf)
            candidate.outcome = RaceOutcome.over if is_over else RaceOutcome.left

    @property
    def left(self) -> list[Candidate]:
        """The cells that may be the best, best first."""
        left = [each for each in self.candidates if each.outcome == RaceOutcome.left]
        return sorted(left, key=lambda each: -each.value)

    @property
    def leader(self) -> Candidate | None:
        """The cell to recommend; None without one that has enough processes."""
        best = next(iter(self.left), None)
        return best if best and len(best.short + best.full) >= MIN_LEAD else None

    @property
    def ratio(self) -> SpeedRatio | None:
        """The best cell over the next one, by their full processes; None if no other is left."""
        last = self.left[:NUM_LAST]
        return compare_processes(last[1].full, last[0].full) if len(last) == NUM_LAST else None

    @property
    def is_decided(self) -> bool:
        """Whether the best cell is known, or that none can be the best."""
        ratio = self.ratio
        if ratio is None:
            return not self.left or self.leader is not None
        return len(self.left) == NUM_LAST and ratio.verdict(self.goal.margin) != Verdict.cant_tell

    @property
    def untried(self) -> list[str]:
        return [each.item.label for each in self.candidates if each.outcome == RaceOutcome.untried]

    def outcome(self, candidate: Candidate) -> RaceOutcome:
        """What became of a cell."""
        if candidate is self.leader:
            return RaceOutcome.best if self.is_decided else RaceOutcome.leads
        ratio = self.ratio if candidate.outcome == RaceOutcome.left else None
        is_beaten = ratio is not None and ratio.verdict(self.goal.margin) == Verdict.faster
        return RaceOutcome.dropped if is_beaten else candidate.outcome

    def sentences(self) -> Iterator[str]:
        """What is best, how sure that is, and which cells were not tried."""
        leader = self.leader
        if leader is None:
            name = self.candidates[0].item.label
            yield f"{name} and others: no cell within the limits was measured often enough to recommend it."
        else:
            how = BEST[self.goal.by] if self.is_decided else f"{BEST[self.goal.by]} so far"
            unit, size = self._unit()
            yield f"{leader.item.label}: {how}, {significant(size * self.goal.turned(leader.value))} {unit}"
            counts = Counter(self.outcome(each) for each in self.candidates).most_common()
            yield f"{self._lead()}. Cells: {', '.join(f'{num:,} {outcome}' for outcome, num in counts)}."
        if self.untried:
            num_more = len(self.untried) - MAX_NAMED
            more = f" {and_more(num_more, 'cell')}" if num_more > 0 else ""
            yield f"Not tried: {', '.join(self.untried[:MAX_NAMED])}{more}."

    def _lead(self) -> str:
        """How much better the leader is than the next cell, and how sure that is."""
        ratio, left = self.ratio, self.left
        if ratio is None:
            return "No other cell is left"
        how_sure = "can't tell: too few processes in full"
        if ratio.low is not None:
            verdict = ratio.verdict(self.goal.margin)
            sureness = verdict if verdict in (Verdict.same, Verdict.cant_tell) else "sure"
            how_sure = f"{sureness}: {significant(ratio.low)} to {significant(ratio.high)} times"
        good = "economical" if self.goal.by == "energy" else "fast"
        times = significant(left[0].value / left[1].value)
        return f"It is {times} times as {good} as {left[1].item.label} ({how_sure})"

    def _unit(self) -> tuple[str, int]:
        """The unit that is shown, and how many of it are one of the values."""
        if self.goal.by == "throughput":
            size, unit = speed_unit(self.candidates[0].item.cell)
            return unit, size
        return UNITS[self.goal.by], 1


def search(
    cells: Sequence[Cell],
    options: SweepOptions,
    goal: Goal,
    console: Console,
    hosts: Hosts,
    now: Clock = time.monotonic,
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
    return search_alone(context, cells, "--search", lambda ready: _Search(context, ready, goal, now))


class _Search(BaseSearch):
    """One search: the races of its cells, and their records."""

    def __init__(self, context: SweepContext, ready: Prepared, goal: Goal, now: Clock) -> None:
        super().__init__(context, ready, goal.budget_s, now)
        self.goal = goal
        self.candidates = [Candidate(item) for item in sorted(self.asked, key=_plainness)]
        self.processes: list[RacedProcess] = []  # in their order
        self.disturbed: list[str] = []  # what disturbed processes that do not count
        # Cells race against each other that do the same, with other settings that the user can choose.
        chosen = set(CHOSEN_SETTINGS)
        if goal.per_batch:
            chosen.remove("batch_size")
        by_work = grouped(self.candidates, lambda each: each.item.cell.key_without(chosen))
        self.races = [Race(candidates, goal) for candidates in by_work.values()]

    def race(self) -> None:
        try:
            for i, race in enumerate(self.races):  # each has its part of the time that all have left
                self._run(race, self.now() + (self.ends_s - self.now()) / (len(self.races) - i))
        finally:  # an interrupted search keeps its results too
            if self.records:
                with writing_errors(f"out={shown(self.context.folder)}"):
                    self._file().write(self.context.folder)

    def _run(self, race: Race, ends_s: float) -> None:
        kept_s = KEPT_SHARE * (ends_s - self.now())
        for candidate, is_full in race.run():
            is_first = candidate.outcome == RaceOutcome.untried and candidate is not race.candidates[0]
            item = self._next(candidate, is_full)
            record = self.earlier([item]).get(item.record_name)
            left_s = ends_s - self.now() - (kept_s if is_first else 0.0)
            if record is None and left_s < (self.session.evidence.length(item.cell).seconds or UNKNOWN_S):
                if not is_first:
                    break
                continue
            self._add(race, candidate, is_full, record or self._measure(item, left_s))

    def _next(self, candidate: Candidate, is_full: bool) -> Planned:
        """The next process of a cell."""
        asked = candidate.item
        short = self.goal.short(asked.cell)
        cell, alike, name = (short, candidate.short, "-short") if not is_full else (asked.cell, candidate.full, "")
        if short == asked.cell:
            alike = candidate.short + candidate.full
            name = ""
        repeat = len(alike)
        label = f"{asked.label}{name}{f'-r{repeat}' if repeat else ''}"
        return self.ready.process(replace(cell, repeat=repeat), label)

    def _measure(self, item: Planned, left_s: float) -> Record:
        limit_s = min(item.cell.timeout_s, max(1.0, left_s))
        return self.session.measure(replace(item, cell=replace(item.cell, timeout_s=limit_s)), left_s)

    def _add(self, race: Race, candidate: Candidate, is_full: bool, record: Record) -> None:
        if reason := why_disturbed(record):
            self.disturbed.append(reason)
        if reason or record.was_cut(candidate.item.cell.timeout_s):
            return
        value = self.goal.value(record)
        is_whole = record.cell.window == candidate.item.cell.window
        self.records[record.name] = record
        self.processes.append(
            RacedProcess(
                record=record.name,
                cell=self.candidates.index(candidate),
                is_full=is_whole,
                value=value,
                took_s=record.wall_s,
            )
        )
        candidate.latencies_ms.append(_latency_ms(record) or 0.0)
        rates = [] if value is None else [self.goal.turned(value)]
        race.add(candidate, is_full, replace(ComparedProcess.of(record), rates=rates))
        if is_whole or not rates:
            both = zip(self.processes, self.records.values(), strict=True)
            self.write_plan(each for process, each in both if process.is_full or each.status != Status.ok)

    def _file(self) -> RaceFile:
        """The contents of race.json."""
        of_candidate = {candidate: race for race in self.races for candidate in race.candidates}
        cells = []
        for each in self.candidates:
            race = of_candidate[each]
            value = self.goal.turned(each.value) if each.short else None
            group = race.candidates[0].item.label
            cells.append(RacedCell(label=each.item.label, group=group, outcome=race.outcome(each), value=value))
        return RaceFile(
            by=self.goal.by,
            margin=self.goal.margin,
            took_s=self.took_s(),
            answers=[line for race in self.races for line in race.sentences()],
            cells=cells,
            processes=self.processes,
        )

    def show(self) -> int:
        """Raises UserError: no cell was tried."""
        console = self.context.console
        folder = shown(self.context.folder)
        if self.races and not self.records:
            if self.disturbed:
                raise UserError(f"every process was disturbed ({self.disturbed[0]}): search on a quiet machine")
            raise UserError(f"--budget: {self.budget_s:g} s is too short to measure one cell: give it more")
        for race in self.races:
            console.print()
            for line in race.sentences():
                say(console, line)
        if self.disturbed:
            num = f"{len(self.disturbed):,} ({self.disturbed[0]})"
            say(console, f"Processes that were disturbed, and do not count: {num}", "yellow")
        say(console, f"Records: {folder} ({len(self.records)} processes, {duration(self.took_s())})")
        say(console, f"A page to share: accelbench report {folder}")
        if any(race.untried or not race.is_decided for race in self.races):
            say(console, f"To go on: the same command with out={folder}, which has a new budget then")
        return 0 if all(race.leader for race in self.races) else 1


def _plainness(item: Planned) -> tuple[object, ...]:
    """The least of a group is its baseline: plain PyTorch in fp32, which users run today, or what comes next."""
    cell = item.cell
    return cell.engine != Engine.pytorch, len(cell.options.enabled), cell.precision != Precision.fp32, cell.batch_size
