"""Finds the best of many cells within a time budget, by successive halving and a comparison of the last two cells.

Every cell first runs one short process. Then, in each round, the slower half of the cells drops out, and the others run
one more short process (successive halving: Jamieson and Talwalkar, AISTATS 2016). The last two cells are measured in
full, interleaved, until a comparison (docs/comparing.md) decides which is better.
"""

import math
import random
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
from accelbench.project import RACE, shown
from accelbench.schema.cell import CHOSEN_SETTINGS, Cell, Window
from accelbench.schema.plan_file import RacedCell, RacedProcess, RaceFile, RaceOutcome
from accelbench.schema.record import Record
from accelbench.schema.serialize import grouped, write_json
from accelbench.schema.vocab import SERVING, Engine, Precision, Protocol, Status
from accelbench.search.base import BaseSearch, search_alone
from accelbench.settings.config import SweepOptions
from accelbench.sweep.context import SweepContext

NUM_LAST = 2  # cells that are compared at the end
NUM_FEW, MIN_SHORT = 8, 3  # if `NUM_FEW` cells or fewer are left, each runs `MIN_SHORT` short processes first
MIN_LEAD = 3  # fewest processes of a recommended cell
# Numbers of full processes after which the ratio is tested. More tests would find more differences by chance.
LOOKS = [MIN_PROCESSES * 2**i for i in range(10)]
KEPT_SHARE = 0.4  # share of the time that is kept for the rounds and the comparison
MAX_NAMED = 6  # untried cells that the answer names
UNKNOWN_S = 1.0  # assumed duration of a process if nothing similar was measured here
BEST = {"throughput": "fastest", "latency": "least latency", "energy": "least energy"}
# What a search can look for -> the unit of its values. Throughput should be high, latency and energy low.
UNITS = {"throughput": "samples/s", "latency": "ms", "energy": "J/sample"}
# A window that is long enough to detect differences of a few per cent. With slow steps, it has two steps.
SHORT = Window(warmup_steps=0, warmup_s=0.05, measure_s=0.1, block_s=0.02, latency_s=0.05, latency_steps=50)


@dataclass(frozen=True)
class Goal:
    """The goal of a search."""

    by: str  # one of `UNITS`
    latency_ms: float | None  # limit of the median step of the best cell; None: no limit
    margin: float  # relative difference up to which two cells are called equal
    budget_s: float
    per_batch: bool  # whether to find the best cell for each batch size

    def short(self, cell: Cell) -> Cell:
        """Returns the cell with a short window. If it has no window, or energy is measured, it is unchanged."""
        if cell.protocol != Protocol.window or self.by == "energy":
            return cell
        return replace(cell, window=SHORT, breakdown_s=0.0, budget_s=0.0, save_weights=False)

    def value(self, record: Record) -> float | None:
        """Returns the value by which cells are compared: samples/s, milliseconds of the median step, or J/sample.

        Returns None if the record is not ok or not complete. Raises UserError: the search is for energy, and this
        machine can't measure energy.
        """
        measured = record.measurement
        if record.status != Status.ok or measured is None or measured.is_partial:
            return None
        if self.by == "throughput":
            return median(measured.steady_rates)
        if self.by == "latency":
            return _latency_ms(record)
        joules = summarise(record)["energy_j_per_sample"]
        if not isinstance(joules, float):
            raise UserError(f"--by energy: no energy counter here measures {record.label}")
        return joules

    def turned(self, value: float) -> float:
        """Takes the reciprocal of latency and energy, so that higher is better. A second call undoes the first."""
        return value if self.by == "throughput" else 1 / value


def _latency_ms(record: Record) -> float | None:
    steps = record.measurement.latency_s if record.measurement else []
    return 1e3 * median(steps) if steps else None


@dataclass(eq=False)
class Candidate:
    """A cell in a race."""

    item: Planned
    outcome: RaceOutcome = RaceOutcome.untried
    # Each process has one rate: its value after `Goal.turned`.
    short: list[ComparedProcess] = field(default_factory=list)
    full: list[ComparedProcess] = field(default_factory=list)
    latencies_ms: list[float] = field(default_factory=list)  # median step of each process

    @property
    def value(self) -> float:
        """The geometric mean of the rates of full-length processes, or else the median rate of short processes."""
        if self.full:
            return geometric_mean([process.rates[0] for process in self.full])
        return median([process.rates[0] for process in self.short])


@dataclass
class Race:
    """A race of cells that do the same work. The order of the cells is the order in which they are first tried."""

    candidates: Sequence[Candidate]
    goal: Goal

    def run(self) -> Iterator[tuple[Candidate, bool]]:
        """Yields the cell of the next process, and whether it is a full process. Ends when the best cell is known."""
        for candidate in self.candidates:
            yield candidate, False
        generator = random.Random(0)
        while len(left := self.left) > NUM_LAST:
            if len(left) > NUM_FEW or max(len(candidate.short) for candidate in left) >= MIN_SHORT:
                half = math.ceil(len(left) / 2)
                for candidate in left[half:]:
                    candidate.outcome = RaceOutcome.dropped
                del left[half:]
            generator.shuffle(left)  # so that drift of the machine affects all cells alike
            for candidate in left:
                yield candidate, False
        while left := self.left:
            if min(len(candidate.full) for candidate in left) in LOOKS and self.is_decided:
                return
            for candidate in self.candidates:  # in the same order in each round
                if candidate in left:
                    yield candidate, True

    def add(self, candidate: Candidate, is_full: bool, process: ComparedProcess) -> None:
        """Adds a process of a cell. If the process has no rates, it failed."""
        candidate.outcome = RaceOutcome.failed
        if process.rates:
            (candidate.full if is_full else candidate.short).append(process)
            is_over = median(candidate.latencies_ms) > (self.goal.latency_ms or math.inf)
            candidate.outcome = RaceOutcome.over if is_over else RaceOutcome.left

    @property
    def left(self) -> list[Candidate]:
        """The cells that may still be the best. The cell that is best so far comes first."""
        left = [candidate for candidate in self.candidates if candidate.outcome == RaceOutcome.left]
        return sorted(left, key=lambda candidate: -candidate.value)

    @property
    def leader(self) -> Candidate | None:
        """The cell to recommend. None if no cell has enough processes."""
        best = next(iter(self.left), None)
        return best if best and len(best.short + best.full) >= MIN_LEAD else None

    @property
    def ratio(self) -> SpeedRatio | None:
        """The best cell's speed divided by the second cell's, from full processes. None if only one cell is left."""
        last = self.left[:NUM_LAST]
        return compare_processes(last[1].full, last[0].full) if len(last) == NUM_LAST else None

    @property
    def is_decided(self) -> bool:
        """Whether the race is over: the best cell is known, or no cell is left that may be the best."""
        ratio = self.ratio
        if ratio is None:
            return not self.left or self.leader is not None
        return len(self.left) == NUM_LAST and ratio.verdict(self.goal.margin) != Verdict.cant_tell

    @property
    def untried(self) -> list[str]:
        return [candidate.item.label for candidate in self.candidates if candidate.outcome == RaceOutcome.untried]

    def outcome(self, candidate: Candidate) -> RaceOutcome:
        """The outcome of a cell."""
        if candidate is self.leader:
            return RaceOutcome.best if self.is_decided else RaceOutcome.leads
        ratio = self.ratio if candidate.outcome == RaceOutcome.left else None
        is_beaten = ratio is not None and ratio.verdict(self.goal.margin) == Verdict.faster
        return RaceOutcome.dropped if is_beaten else candidate.outcome

    def sentences(self) -> Iterator[str]:
        """Yields sentences on the best cell, on how sure this is, and on the cells that were not tried."""
        leader = self.leader
        if leader is None:
            name = self.candidates[0].item.label
            yield f"{name} and others: no cell can be recommended, because none within the limits has enough processes."
        else:
            how = BEST[self.goal.by] if self.is_decided else f"{BEST[self.goal.by]} so far"
            unit, size = self._unit()
            yield f"{leader.item.label}: {how}, {significant(size * self.goal.turned(leader.value))} {unit}"
            counts = Counter(self.outcome(candidate) for candidate in self.candidates).most_common()
            yield f"{self._lead()}. Cells: {', '.join(f'{num:,} {outcome}' for outcome, num in counts)}."
        if self.untried:
            num_more = len(self.untried) - MAX_NAMED
            more = f" {and_more(num_more, 'cell')}" if num_more > 0 else ""
            yield f"Not tried: {', '.join(self.untried[:MAX_NAMED])}{more}."

    def _lead(self) -> str:
        """Says how much better the best cell is than the second cell, and how sure this is."""
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
        """Returns the unit to show, and the factor that converts a value to this unit."""
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
) -> int:
    """Searches for the best of `cells`. Prints the answer, and returns the exit status.

    Every process leaves a record, as in a sweep. Records of earlier searches in the same folder are used.

    Raises UserError: the search can't start or continue, and the user can solve the problem.
    """
    context = SweepContext.begin(cells, options, console, hosts, kind="search")
    if len({cell.id for cell in cells}) < 2:
        raise UserError("--search: these settings make only one cell: give lists of values, such as batch_size=1,8,32")
    if (goal.by == "latency" or goal.latency_ms) and any(cell.protocol == Protocol.fit for cell in cells):
        raise UserError("protocol=fit: does not time single steps: search --by throughput, without --latency-ms")
    if served := {cell.protocol for cell in cells} & SERVING - {Protocol.offline}:
        raise UserError(f"protocol={min(served)}: --search compares speeds: use --serve to find the highest rate")
    return search_alone(context, cells, "--search", lambda ready: _Search(context, ready, goal))


class _Search(BaseSearch):
    """A search: the races of its cells, and their records."""

    def __init__(self, context: SweepContext, ready: Prepared, goal: Goal) -> None:
        super().__init__(context, ready, goal.budget_s)
        self.goal = goal
        self.candidates = [Candidate(item) for item in sorted(self.asked, key=_plainness)]
        self.processes: list[RacedProcess] = []  # in the order in which they ran
        self.disturbed: list[str] = []  # what disturbed the processes that do not count
        # Cells of one race do the same work, with different values of the settings that a user can choose.
        chosen = set(CHOSEN_SETTINGS)
        if goal.per_batch:
            chosen.remove("batch_size")
        by_work = grouped(self.candidates, lambda candidate: candidate.item.cell.key_without(chosen))
        self.races = [Race(candidates, goal) for candidates in by_work.values()]

    def race(self) -> None:
        try:
            for i, race in enumerate(self.races):  # the remaining time is divided among the remaining races
                self._run(race, self.now() + (self.ends_s - self.now()) / (len(self.races) - i))
        finally:  # an interrupted search also keeps its results
            if self.records:
                with writing_errors(f"out={shown(self.context.folder)}"):
                    write_json(self.context.folder / RACE, self._file())

    def _run(self, race: Race, ends_s: float) -> None:
        kept_s = KEPT_SHARE * (ends_s - self.now())
        for candidate, is_full in race.run():
            is_first = candidate.outcome == RaceOutcome.untried and candidate is not race.candidates[0]
            item = self._next(candidate, is_full)
            record = self.earlier([item]).get(item.record_name)
            left_s = ends_s - self.now() - (kept_s if is_first else 0.0)
            if record is None and left_s < (self.session.evidence.measured_s(item.cell) or UNKNOWN_S):
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
            self.write_plan(one for process, one in both if process.is_full or one.status != Status.ok)

    def _file(self) -> RaceFile:
        """The contents of race.json."""
        of_candidate = {candidate: race for race in self.races for candidate in race.candidates}
        cells = []
        for candidate in self.candidates:
            race = of_candidate[candidate]
            value = self.goal.turned(candidate.value) if candidate.short else None
            group = race.candidates[0].item.label
            outcome = race.outcome(candidate)
            cells.append(RacedCell(label=candidate.item.label, group=group, outcome=outcome, value=value))
        return RaceFile(
            by=self.goal.by,
            margin=self.goal.margin,
            took_s=self.took_s(),
            answers=[line for race in self.races for line in race.sentences()],
            cells=cells,
            processes=self.processes,
        )

    def show(self) -> int:
        """Prints the answer, and returns the exit status. Raises UserError: no process was measured undisturbed."""
        console = self.context.console
        folder = shown(self.context.folder)
        if self.races and not self.records:
            if self.disturbed:
                raise UserError(f"every process was disturbed ({self.disturbed[0]}): search on a quiet machine")
            raise UserError(f"--budget: {self.budget_s:g} s is too short to measure one cell: give more time")
        for race in self.races:
            console.print()
            for line in race.sentences():
                say(console, line)
        if self.disturbed:
            num = f"{len(self.disturbed):,} ({self.disturbed[0]})"
            say(console, f"Disturbed processes, which do not count: {num}", "yellow")
        say(console, f"Records: {folder} ({len(self.records)} processes, {duration(self.took_s())})")
        say(console, f"A page to share: accelbench report {folder}")
        if any(race.untried or not race.is_decided for race in self.races):
            say(console, f"To go on: run the same command with out={folder}; it has a new budget")
        return 0 if all(race.leader for race in self.races) else 1


def _plainness(item: Planned) -> tuple[object, ...]:
    """A sort key. The first cell of a group is its baseline: plain PyTorch in fp32, or the cell most similar to it."""
    cell = item.cell
    return cell.engine != Engine.pytorch, len(cell.options.enabled), cell.precision != Precision.fp32, cell.batch_size
