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
from enum import StrEnum
from statistics import geometric_mean, median

from rich.console import Console

from accelbench.answers.cells import MIN_PROCESSES
from accelbench.answers.sureness import SpeedRatio, Verdict, speed_ratio
from accelbench.answers.words import speed_text
from accelbench.errors import UserError, writing_errors
from accelbench.grid.plan import Planned
from accelbench.isolation.hosts import Hosts
from accelbench.judging.row import summarise
from accelbench.judging.verdict import why_disturbed
from accelbench.presentation import duration, say, significant
from accelbench.project import RACE, shown
from accelbench.schema.cell import CHOSEN_SETTINGS, SERVING, Cell, Protocol, Status, Window
from accelbench.schema.plan_file import RaceFile
from accelbench.schema.record import Record
from accelbench.schema.serialize import grouped, write_json
from accelbench.search.base import BaseSearch
from accelbench.settings.config import SweepOptions
from accelbench.sweep.session import Session

NUM_LAST = 2  # cells that are compared at the end
# If `NUM_FEW` cells or fewer are left, each runs `MIN_RUNS` processes before it can drop out. A recommended cell has at
# least as many.
NUM_FEW, MIN_RUNS = 8, 3
# Numbers of full processes after which the ratio is tested. More tests would find more differences by chance.
LOOKS = [MIN_PROCESSES * 2**i for i in range(10)]
KEPT_SHARE = 0.4  # share of the time that is kept for the rounds and the comparison
UNKNOWN_S = 1.0  # assumed duration of a process if nothing similar was measured here
BEST = {"throughput": "fastest", "latency": "least latency", "energy": "least energy"}
# A window that is long enough to detect differences of a few per cent. With slow steps, it has two steps.
SHORT = Window(warmup_steps=0, warmup_s=0.05, measure_s=0.1, block_s=0.02, latency_s=0.05, latency_steps=50)


class Outcome(StrEnum):
    """The outcome of a cell in a search."""

    untried, left, dropped = "not tried", "may be best", "dropped"
    failed, over = "failed", "over the limit"


@dataclass(frozen=True)
class Goal:
    """The goal of a search."""

    by: str  # one of `BEST`
    latency_ms: float | None  # limit of the median step of the best cell; None: no limit
    margin: float  # relative difference up to which two cells are called equal
    budget_s: float

    def short(self, cell: Cell) -> Cell:
        """Returns the cell with a short window. If it has no window, or energy is measured, it is unchanged."""
        if cell.protocol != Protocol.window or self.by == "energy":
            return cell
        return replace(cell, window=SHORT, breakdown_s=0.0, budget_s=0.0, save_weights=False)

    def rate(self, record: Record) -> float | None:
        """Returns the value by which cells are compared: samples/s, steps per ms or samples per J. Higher is better.

        Returns None if the record is not ok or not complete. Raises UserError: the search is for energy, and this
        machine can't measure energy.
        """
        measured = record.measurement
        if record.status != Status.ok or measured is None or measured.is_partial:
            return None
        if self.by == "throughput":
            return median(measured.steady_rates)
        if self.by == "latency":
            return 1 / _step_ms(record) if measured.latency_s else None
        joules = summarise(record)["energy_j_per_sample"]
        if not isinstance(joules, float):
            raise UserError(f"--by energy: no energy counter here measures {record.label}")
        return 1 / joules

    def text(self, rate: float, cell: Cell) -> str:
        """Formats a result of `rate`, such as `401 samples/s` or `3.1 ms`."""
        if self.by == "throughput":
            return speed_text(cell, rate)
        return f"{significant(1 / rate)} {'ms' if self.by == 'latency' else 'J/sample'}"


def _step_ms(record: Record) -> float:
    steps = record.measurement.latency_s if record.measurement else []
    return 1e3 * median(steps) if steps else 0.0


@dataclass(eq=False)
class Candidate:
    """A cell in a race."""

    item: Planned
    outcome: Outcome = Outcome.untried
    short: list[float] = field(default_factory=list)  # `Goal.rate` of each short process
    full: list[float] = field(default_factory=list)
    steps_ms: list[float] = field(default_factory=list)  # median step of each process

    @property
    def rate(self) -> float:
        """The geometric mean of the rates of full-length processes, or else the median rate of short processes."""
        return geometric_mean(self.full) if self.full else median(self.short)


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
            if len(left) > NUM_FEW or max(len(candidate.short) for candidate in left) >= MIN_RUNS:
                half = math.ceil(len(left) / 2)
                for candidate in left[half:]:
                    candidate.outcome = Outcome.dropped
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

    def add(self, candidate: Candidate, is_full: bool, rate: float | None, step_ms: float) -> None:
        """Adds the rate and the median step of a cell's process. If the rate is None, the process failed."""
        candidate.outcome = Outcome.failed
        candidate.steps_ms.append(step_ms)
        if rate is not None:
            (candidate.full if is_full else candidate.short).append(rate)
            is_over = median(candidate.steps_ms) > (self.goal.latency_ms or math.inf)
            candidate.outcome = Outcome.over if is_over else Outcome.left

    @property
    def left(self) -> list[Candidate]:
        """The cells that may still be the best. The cell that is best so far comes first."""
        left = [candidate for candidate in self.candidates if candidate.outcome == Outcome.left]
        return sorted(left, key=lambda candidate: -candidate.rate)

    @property
    def leader(self) -> Candidate | None:
        """The cell to recommend. None if no cell has enough processes."""
        best = next(iter(self.left), None)
        return best if best and len(best.short + best.full) >= MIN_RUNS else None

    @property
    def ratio(self) -> SpeedRatio | None:
        """The best cell's speed divided by the second cell's, from full processes. None if only one cell is left."""
        last = self.left[:NUM_LAST]
        return speed_ratio(last[1].full, last[0].full) if len(last) == NUM_LAST else None

    @property
    def is_decided(self) -> bool:
        """Whether the race is over: the best cell is known, or no cell is left that may be the best."""
        ratio = self.ratio
        if ratio is None:
            return not self.left or self.leader is not None
        return len(self.left) == NUM_LAST and ratio.verdict(self.goal.margin) != Verdict.cant_tell

    @property
    def counts(self) -> Counter[Outcome]:
        return Counter(candidate.outcome for candidate in self.candidates)

    def sentences(self) -> Iterator[str]:
        """Yields sentences on the best cell, on how sure this is, and on the cells that can't be it."""
        leader = self.leader
        if leader is None:
            name = self.candidates[0].item.label
            yield f"{name} and others: no cell can be recommended, because none within the limits has enough processes."
        else:
            so_far = "" if self.is_decided else " so far"
            rate = self.goal.text(leader.rate, leader.item.cell)
            yield f"{leader.item.label}: {BEST[self.goal.by]}{so_far}, {rate}"
            yield self._lead()
        outside = (Outcome.failed, Outcome.over, Outcome.untried)
        if out := [f"{self.counts[outcome]:,} {outcome}" for outcome in outside if self.counts[outcome]]:
            yield f"Left out: {', '.join(out)}."

    def _lead(self) -> str:
        """Describes how much better the best cell is than the second cell, and how sure this is."""
        ratio, left = self.ratio, self.left
        if ratio is None:
            return "No other cell is left."
        how_sure = "can't tell: too few processes in full"
        if ratio.low is not None:
            verdict = ratio.verdict(self.goal.margin)
            sureness = verdict if verdict in (Verdict.same, Verdict.cant_tell) else "sure"
            how_sure = f"{sureness}: {significant(ratio.low)} to {significant(ratio.high)} times"
        good = "economical" if self.goal.by == "energy" else "fast"
        times = significant(left[0].rate / left[1].rate)
        return f"It is {times} times as {good} as {left[1].item.label} ({how_sure})."


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
    session = Session.begin(cells, options, console, hosts, kind="search")
    if len({cell.id for cell in cells}) < 2:
        raise UserError(
            "--search: these settings make only one cell: give lists of values, such as batch_size=1,8,32"
        )
    if (goal.by == "latency" or goal.latency_ms) and any(cell.protocol == Protocol.fit for cell in cells):
        raise UserError(
            "protocol=fit: does not time single steps: search --by throughput, without --latency-ms"
        )
    if served := {cell.protocol for cell in cells} & SERVING - {Protocol.offline}:
        raise UserError(
            f"protocol={min(served)}: --search compares speeds: use --serve to find the highest rate"
        )
    return _Search(session, cells, goal).search()


class _Search(BaseSearch):
    """A search: the races of its cells, and their records."""

    def __init__(self, session: Session, cells: Sequence[Cell], goal: Goal) -> None:
        super().__init__(session, cells, "--search", goal.budget_s)
        self.goal = goal
        self.published: list[Record] = []  # of full processes, and of those that failed
        self.races: list[Race] = []

    def race(self) -> None:
        # Cells of one race do the same work, with different values of the settings that a user can choose.
        by_work = grouped(
            map(Candidate, self.asked), lambda candidate: candidate.item.cell.key_without(CHOSEN_SETTINGS)
        )
        self.races = [Race(of_work, self.goal) for of_work in by_work.values()]
        try:
            for i, race in enumerate(self.races):  # the remaining time is divided among the remaining races
                self._compete(race, self.now() + (self.ends_s - self.now()) / (len(self.races) - i))
        finally:  # an interrupted search also keeps its results
            if self.records:
                answers = [line for race in self.races for line in race.sentences()]
                short = self.records.keys() - {record.name for record in self.published}
                with writing_errors(f"out={shown(self.session.folder)}"):
                    write_json(self.session.folder / RACE, RaceFile(answers=answers, short=sorted(short)))

    def _compete(self, race: Race, ends_s: float) -> None:
        kept_s = KEPT_SHARE * (ends_s - self.now())
        for candidate, is_full in race.run():
            asked = candidate.item.cell
            cell = asked if is_full else self.goal.short(asked)
            repeat = len(candidate.full if is_full else candidate.short)
            if is_full and self.goal.short(asked) == asked:
                repeat += len(candidate.short)
            label = (
                f"{candidate.item.label}{'' if cell == asked else '-short'}{f'-r{repeat}' if repeat else ''}"
            )
            item = self.ready.process(replace(cell, repeat=repeat), label)
            record = self.earlier([item]).get(item.record_name)
            if record is None:
                is_first = candidate.outcome == Outcome.untried and candidate is not race.candidates[0]
                left_s = ends_s - self.now() - (kept_s if is_first else 0.0)
                if left_s < (self.session.evidence.length(item.cell).seconds or UNKNOWN_S):
                    if is_first:
                        continue
                    return
                limit_s = min(item.cell.timeout_s, max(1.0, left_s))
                record = self.session.measure(
                    replace(item, cell=replace(item.cell, timeout_s=limit_s)), left_s
                )
            if why_disturbed(record) or record.was_cut(asked.timeout_s):
                continue
            self.records[record.name] = record
            race.add(candidate, is_full, self.goal.rate(record), _step_ms(record))
            if cell == asked or record.status != Status.ok:
                self.published.append(record)
                self.write_plan(self.published)

    def show(self) -> int:
        """Prints the answer, and returns the exit status. Raises UserError: no process was measured undisturbed."""
        console = self.session.console
        folder = shown(self.session.folder)
        if self.races and not self.records:
            raise UserError(
                f"--budget: {self.budget_s:g} s is too short to measure one cell, or other programs disturbed all "
                "processes: give more time, on a quiet machine"
            )
        for race in self.races:
            console.print()
            for line in race.sentences():
                say(console, line)
        say(console, f"Records: {folder} ({len(self.records)} processes, {duration(self.took_s())})")
        if any(race.counts[Outcome.untried] or not race.is_decided for race in self.races):
            say(console, f"To go on: run the same command with out={folder}; it has a new budget")
        return 0 if all(race.leader for race in self.races) else 1
