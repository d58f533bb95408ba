"""What a search looks for, and what it found: in sentences that say how sure it is, and in a small table."""

import math
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

from rich.console import Console

from accelbench.answers.process import Process
from accelbench.answers.words import environment_names, short_text, speed_unit, workload_text
from accelbench.errors import UserError
from accelbench.judging import disturbed
from accelbench.judging.row import steady_rates, summarise
from accelbench.presentation import and_more, duration, say, significant
from accelbench.project import shown
from accelbench.report.tables.table import Column, count, number, rendered, tabulate_known, word
from accelbench.schema.cell import Cell, Window
from accelbench.schema.plan_file import RacedCell, RacedProcess, RaceFile, RaceOutcome
from accelbench.schema.record import Record
from accelbench.schema.vocab import Protocol, Status
from accelbench.search.race import Race, Sample

MAX_CELLS = 8  # of a table
MAX_NAMED = 6  # cells that were not tried
BETTER = {"throughput": "faster", "latency": "faster", "energy": "better in samples per joule"}
BEST = {"throughput": "fastest", "latency": "least latency", "energy": "least energy"}
# Beyond it, the bound on how much better other cells may be is of no use.
MAX_MARGIN = 1.0
# Enough to tell cells apart that differ by a few per cent; of slow steps, a first one and another one.
SHORT = Window(warmup_steps=0, warmup_s=0.05, measure_s=0.1, block_s=0.02, latency_s=0.0, latency_steps=0)
LATENCY = {"latency_s": 0.05, "latency_steps": 50}  # of a short window, where latency matters
# What a search may look for -> the unit of its values. More throughput is better, and less of the others.
UNITS = {"throughput": "samples/s", "latency": "ms", "energy": "J/sample"}


@dataclass(frozen=True)
class Goal:
    """What a search looks for."""

    by: str  # one of `UNITS`
    latency_ms: float | None  # the longest median step of a cell that may be the best; None for no limit
    margin: float  # by which share another cell may be better
    budget_s: float
    per_batch: bool  # whether each batch size has a best cell of its own

    @property
    def needs_latency(self) -> bool:
        return self.by == "latency" or self.latency_ms is not None

    def short(self, cell: Cell) -> Cell:
        """The cell in a short window; the same cell if its protocol has no window, or energy needs all of it."""
        if cell.protocol != Protocol.window or self.by == "energy":
            return cell
        bounds: Mapping[str, float] = vars(SHORT) | (LATENCY if self.needs_latency else {})
        asked = vars(cell.window)
        least = {name: min(bound, asked[name]) for name, bound in bounds.items() if name != "width"}
        return replace(cell, window=replace(cell.window, **least), breakdown_s=0.0, budget_s=0.0, save_weights=False)

    def sample(self, record: Record, asked: Cell) -> Sample:
        """What the record of a process tells the race; nothing if it was disturbed or cut off earlier than asked."""
        if record.was_cut(asked.timeout_s) or disturbed.reason(record):
            return Sample(None, is_cut=True)
        is_partial = record.measurement is not None and record.measurement.is_partial
        value = None if is_partial else self.value(record)
        if value is None:
            return Sample(None)
        latency_ms = _latency_ms(record) if self.needs_latency else None
        score = math.log(value) if self.by == "throughput" else -math.log(value)
        return Sample(score, -math.inf if latency_ms is None else math.log(latency_ms))

    def value(self, record: Record) -> float | None:
        """Samples/s, ms of the median step, or J/sample; None unless ok and undisturbed. Raises UserError."""
        if record.status != Status.ok or record.measurement is None or disturbed.reason(record):
            return None
        if self.by == "throughput":
            return median(steady_rates(record.measurement))
        if self.by == "latency":
            return _latency_ms(record)
        joules = summarise(record)["energy_j_per_sample"]
        if not isinstance(joules, float):
            device = record.cell.device
            raise UserError(f"--by energy: {device} has no counter of energy here that covers {record.label}")
        return joules


def _latency_ms(record: Record) -> float | None:
    steps = record.measurement.latency_s if record.measurement else []
    return 1e3 * median(steps) if steps else None


@dataclass
class Found:
    """What a search has found so far; cells are numbered from 0."""

    goal: Goal
    race: Race
    labels: Sequence[str]
    # of the processes, in their order: the cell's number, whether it was measured in full, the record
    records: list[tuple[int, bool, Record]] = field(default_factory=list)
    dropped_after: dict[int, int] = field(default_factory=dict)  # cell -> how many processes had run when it was out
    disturbed: list[str] = field(default_factory=list)  # what disturbed further processes, which do not count

    def reported(self) -> dict[int, Process]:
        """A record of each cell that has one, in full if there is such a record."""
        latest = {i: record for i, _, record in sorted(self.records, key=lambda each: each[1])}
        return {i: Process.of(record) for i, record in latest.items()}

    def outcome(self, i: int) -> RaceOutcome:
        """What became of a cell."""
        candidate = self.race.candidates[i]
        if candidate.has_failed:
            return RaceOutcome.failed
        if not candidate.was_tried:
            return RaceOutcome.untried
        if candidate.is_over:
            return RaceOutcome.over
        if candidate.has_dropped:
            return RaceOutcome.dropped
        led = [group for group, ranking in self.race.rankings.items() if ranking.leader == i]
        if not led:
            return RaceOutcome.left
        return RaceOutcome.best if self.race.is_decided(led[0]) else RaceOutcome.leads

    def value(self, i: int) -> float | None:
        """The median of the cell's processes; None if none gave a number."""
        candidate = self.race.candidates[i]
        if not candidate.scores:
            return None
        return math.exp(candidate.score if self.goal.by == "throughput" else -candidate.score)

    def answers(self) -> list["GroupAnswer"]:
        """What is said of each group of cells."""
        reported = self.reported()
        return [GroupAnswer(self, group, reported) for group in self.race.groups]

    def file(self) -> RaceFile:
        """The contents of race.json."""
        answers = self.answers()
        names = {i: answer.name for answer in answers for i in answer.members}
        after = self.dropped_after
        cells = [
            RacedCell(label=label, group=names[i], outcome=self.outcome(i), value=self.value(i), after=after.get(i))
            for i, label in enumerate(self.labels)
        ]
        processes = [
            RacedProcess(record=found.name, cell=i, is_full=is_full, value=self.goal.value(found), took_s=found.wall_s)
            for i, is_full, found in self.records
        ]
        return RaceFile(
            by=self.goal.by,
            margin=self.goal.margin,
            took_s=sum(record.wall_s for _, _, record in self.records),
            answers=[line for answer in answers for line in answer.sentences()],
            cells=cells,
            processes=processes,
        )


class GroupAnswer:
    """What a search says of the cells of one group, which do the same."""

    def __init__(self, found: Found, group: Hashable, reported: dict[int, Process]) -> None:
        self.found, self.goal, self.race, self.reported = found, found.goal, found.race, reported
        self.members, self.ranking = self.race.groups[group], self.race.rankings[group]
        self.is_decided = self.race.is_decided(group)
        self.untried = [found.labels[i] for i in self.members if not self.race.candidates[i].was_tried]
        self._known = [reported[i] for i in self.members if i in reported]
        is_speed = self._known and self.goal.by == "throughput"
        self.size, self.unit = speed_unit(self._known[0].cell) if is_speed else (1, UNITS[self.goal.by])

    @property
    def name(self) -> str:
        """What the cells do, with their batch size if each has a best cell of its own."""
        if not self._known:
            return self.found.labels[self.members[0]]
        batch = f", batch {self._known[0].cell.batch_size}" if self.goal.per_batch else ""
        return f"{workload_text(self._known[0])}{batch}"

    def sentences(self) -> Iterator[str]:
        """What is best, how sure that is, and which cells were not tried."""
        goal, leader = self.goal, self.ranking.leader
        if leader is None:
            limit = "" if goal.latency_ms is None else f" within {goal.latency_ms:g} ms"
            yield f"{self.name}: no cell{limit} was measured often enough to recommend it."
        else:
            yield f"{self.name}: {'' if self.is_decided else 'so far '}{BEST[goal.by]} with {self._named(leader)}"
            counts = Counter(self.found.outcome(i) for i in self.members).most_common()
            yield f"{self._sureness()}. Cells: {', '.join(f'{num:,} {outcome}' for outcome, num in counts)}."
        if self.untried:
            more = f" {and_more(num, 'cell')}" if (num := len(self.untried) - MAX_NAMED) > 0 else ""
            yield f"Not tried: {', '.join(self.untried[:MAX_NAMED])}{more}."

    def _text(self, i: int) -> str:
        has_engines = len({each.cell.engine for each in self._known}) > 1
        environment = environment_names(self._known).get(self.reported[i].measured_key)
        return short_text(self.reported[i], has_engines=has_engines, environment=environment)

    def _value(self, i: int) -> float | None:
        value = self.found.value(i)
        return value and self.size * value

    def _named(self, i: int) -> str:
        """A cell and its value, such as `cpu bf16 b32, 2 threads: 3,200 samples/s`."""
        return f"{self._text(i)}: {significant(self._value(i))} {self.unit}"

    def _sureness(self) -> str:
        goal, margin = self.goal, self.ranking.margin
        candidates = [self.race.candidates[i] for i in self.members]
        num = sum(each.num_samples > 0 and not (each.has_failed or each.is_over) for each in candidates)
        which = f"the {num:,} cells that were tried"
        which += "" if goal.latency_ms is None else f" and are within {goal.latency_ms:g} ms"
        if num == 1:
            return "It is the only cell that was measured" + which.partition("tried and are")[2]
        if margin > max(goal.margin, MAX_MARGIN):
            return f"It is not known yet by how much any of {which} may be {BETTER[goal.by]}"
        known = goal.margin if margin <= goal.margin else math.ceil(1000 * margin) / 1000
        asked = "" if known == goal.margin else f" ({100 * goal.margin:g} % was asked for)"
        return f"With 95 % confidence none of {which} is more than {100 * known:g} % {BETTER[goal.by]}{asked}"

    def columns(self) -> list[Column[int]]:
        found, candidates = self.found, self.race.candidates
        return [
            Column("with", lambda i: word(self._text(i))),
            Column(self.unit, lambda i: number(self._value(i))),
            Column("processes", lambda i: count(candidates[i].num_samples)),
            Column("", lambda i: word(found.outcome(i))),
        ]

    def shown_cells(self) -> list[int]:
        """The leader, and then the others by their speed."""
        scores = {i: each.score for i in self.members if (each := self.race.candidates[i]).scores and not each.is_over}
        return sorted(scores, key=lambda i: (i != self.ranking.leader, -scores[i]))[:MAX_CELLS]


def show(found: Found, folder: Path, console: Console) -> int:
    """Prints what was found; the exit status: 1 without a recommendation. Raises UserError: no cell was tried."""
    if found.race.candidates and not any(candidate.was_tried for candidate in found.race.candidates):
        if found.disturbed:
            raise UserError(f"every process was disturbed ({found.disturbed[0]}): search on a quiet machine")
        raise UserError(f"--budget: {found.goal.budget_s:g} s is too short to measure one cell: give it more")
    answers = found.answers()
    for answer in answers:
        console.print()
        for line in answer.sentences():
            say(console, line)
        if (table := tabulate_known("", answer.columns(), answer.shown_cells())) is not None:
            console.print(rendered(table, console.width))
    if found.disturbed:
        num = f"{len(found.disturbed):,} ({found.disturbed[0]})"
        say(console, f"Processes that were disturbed, and do not count: {num}", "yellow")
    took_s = sum(record.wall_s for _, _, record in found.records)
    say(console, f"Records: {shown(folder)} ({len(found.records)} processes, {duration(took_s)})")
    say(console, f"A page to share: accelbench report {shown(folder)}")
    if any(answer.untried or not answer.is_decided for answer in answers):
        say(console, f"To go on: the same command with out={shown(folder)}, which has a new budget then")
    return 0 if all(answer.ranking.leader is not None for answer in answers) else 1
