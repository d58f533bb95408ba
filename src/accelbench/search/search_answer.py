"""What a search found, in sentences that say how sure it is, and in a small table."""

import math
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from rich.console import Console

from accelbench.answers.process import Process
from accelbench.answers.words import short_text, workload_text
from accelbench.errors import UserError
from accelbench.judging.disturbed import was_beside_others
from accelbench.presentation import and_more, duration, significant
from accelbench.project import shown
from accelbench.report.tables.on_terminal import rendered
from accelbench.report.tables.table import Column, count, number, tabulate_known, word
from accelbench.schema.race_file import RacedCell, RacedProcess, RaceFile, RaceOutcome
from accelbench.schema.record import Record
from accelbench.search.goal import UNITS, Goal
from accelbench.search.race import Race, Ranking

MAX_CELLS = 8  # of a table
MAX_NAMED = 6  # cells that were not tried
BETTER = {"throughput": "faster", "latency": "faster", "energy": "better in samples per joule"}
BEST = {"throughput": "fastest", "latency": "least latency", "energy": "least energy"}
# Beyond it, the bound on how much better other cells may be is of no use.
MAX_MARGIN = 1.0


@dataclass(frozen=True, kw_only=True)
class Found:
    """What a search found.

    Attributes:
        goal: what was searched for.
        race: of the cells.
        labels: of the cells.
        records: of the processes, in their order: the cell's number, whether it was measured in full, the record.
        processes: the same, as race.json has them.
        dropped_after: cell -> how many processes had run when it was out.
        disturbed: what disturbed further processes, which do not count.
    """

    goal: Goal
    race: Race
    labels: Sequence[str]
    records: Sequence[tuple[int, bool, Record]]
    processes: list[RacedProcess]
    dropped_after: Mapping[int, int]
    disturbed: Sequence[str] = ()

    @cached_property
    def reported(self) -> dict[int, Process]:
        """A record of each cell that has one, in full if there is such a record."""
        in_order = sorted(self.records, key=lambda each: each[1])
        return {i: Process.of(record) for i, _, record in in_order}

    @cached_property
    def in_full(self) -> set[int]:
        """The cells that were measured in full."""
        return {i for i, is_full, _ in self.records if is_full}

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
        return self.goal.value_of(candidate.score) if candidate.scores else None

    def name(self, group: Hashable) -> str:
        """What the cells of a group do, with their batch size if each has a best cell of its own."""
        known = [self.reported[i] for i in self.race.groups[group] if i in self.reported]
        if not known:
            return self.labels[self.race.groups[group][0]]
        batch = f", batch {known[0].cell.batch_size}" if self.goal.per_batch else ""
        return f"{workload_text(known[0])}{batch}"

    def text(self, i: int) -> str:
        """A cell's settings, such as `cpu bf16 b32, 2 threads`."""
        group = next(members for members in self.race.groups.values() if i in members)
        known = [self.reported[j] for j in group if j in self.reported]
        return short_text(self.reported[i], has_engines=len({each.cell.engine for each in known}) > 1)

    def file(self) -> RaceFile:
        """The contents of race.json."""
        names = {i: self.name(group) for group, members in self.race.groups.items() for i in members}
        return RaceFile(
            by=self.goal.by,
            margin=self.goal.margin,
            took_s=sum(process.took_s for process in self.processes),
            answers=[line for group in self.race.groups for line in sentences(self, group)],
            cells=[
                RacedCell(
                    label=label,
                    group=names[i],
                    outcome=self.outcome(i),
                    value=self.value(i),
                    after=self.dropped_after.get(i),
                )
                for i, label in enumerate(self.labels)
            ],
            processes=self.processes,
        )


def show(found: Found, goal: Goal, folder: Path, console: Console) -> int:
    """Prints what was found; returns the exit status: 1 if no cell can be recommended.

    Raises:
        UserError: no cell could be tried in the time.
    """
    race = found.race
    if race.candidates and not any(candidate.was_tried for candidate in race.candidates):
        if found.disturbed:
            raise UserError(f"every process was disturbed ({found.disturbed[0]}): search on a quiet machine")
        raise UserError(f"--budget: {goal.budget_s:g} s is too short to measure one cell: give it more")
    for group, ranking in race.rankings.items():
        console.print()
        for line in sentences(found, group):
            console.print(line, markup=False, highlight=False, soft_wrap=not console.is_terminal)
        if (table := tabulate_known("", _columns(found), _shown_cells(found, group, ranking))) is not None:
            console.print(rendered(table))
    took_s = sum(process.took_s for process in found.processes)
    if found.disturbed:
        num = len(found.disturbed)
        console.print(
            f"Disturbed, and not counted: {num:,} more process{'es' * (num > 1)} ({found.disturbed[0]})",
            style="yellow",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
    console.print(
        f"Records: {shown(folder)} ({len(found.processes)} processes, {duration(took_s)})\n"
        f"A page to share: accelbench report {shown(folder)}",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
    if any(_needs_time(found, group) for group in race.groups):
        console.print(
            f"To go on: the same command with out={shown(folder)}, which has a new budget then",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
    return 0 if all(ranking.leader is not None for ranking in race.rankings.values()) else 1


def sentences(found: Found, group: Hashable) -> Iterator[str]:
    """What is best, how sure that is, and what would need more time."""
    goal, race, ranking = found.goal, found.race, found.race.rankings[group]
    if ranking.leader is None:
        limit = "" if goal.latency_ms is None else f" within {goal.latency_ms:g} ms"
        inside = [i for i in ranking.rivals if race.limit is None or race.candidates[i].limited <= race.limit]
        so_far = f"; so far {BEST[goal.by]} with {_named(found, inside[0])}" if inside else ""
        yield f"{found.name(group)}: no cell{limit} was measured often enough to recommend it{so_far}."
    else:
        so_far = "" if race.is_decided(group) else "so far "
        yield f"{found.name(group)}: {so_far}{BEST[goal.by]} with {_named(found, ranking.leader)}"
        yield f"{_sureness(found, group, ranking)}; {_counts(found, group)}."
    if needed := _needs_time(found, group):
        yield f"More time is needed for {needed}."
    if untried := [found.labels[i] for i in race.groups[group] if not race.candidates[i].was_tried]:
        more = f" {and_more(num, 'cell')}" if (num := len(untried) - MAX_NAMED) > 0 else ""
        yield f"Not tried: {', '.join(untried[:MAX_NAMED])}{more}."
    beside = [was_beside_others(record) for i, _, record in found.records if i in race.groups[group]]
    if any(beside):
        yield (
            f"Not alone: {sum(beside):,} of {len(beside):,} processes; others used the machine's cores meanwhile."
            " That may slow some cells down more than others."
        )
    reasons = Counter(found.reported[i].outcome for i in race.groups[group] if race.candidates[i].has_failed)
    if reasons:
        yield "Failed: " + ", ".join(f"{num} {status}" for status, num in reasons.most_common()) + "."


def _named(found: Found, i: int) -> str:
    """A cell and its value, such as `cpu bf16 b32, 2 threads: 3,200 samples/s`."""
    return f"{found.text(i)}: {significant(found.value(i))} {UNITS[found.goal.by]}"


def _sureness(found: Found, group: Hashable, ranking: Ranking) -> str:
    goal, candidates = found.goal, found.race.candidates
    ok = [candidates[i] for i in found.race.groups[group] if candidates[i].num_samples and not candidates[i].has_failed]
    tried = [candidate for candidate in ok if not candidate.is_over]
    if len(ok) > len(tried) == 1:
        return f"Of the {len(ok):,} cells that were tried, it is the only one within {goal.latency_ms:g} ms"
    if len(tried) == 1:
        return "It is the only cell that was measured"
    which = f"the {len(tried):,} cells that were tried"
    which += "" if goal.latency_ms is None else f" and are within {goal.latency_ms:g} ms"
    asked = f"{100 * goal.margin:g} %"
    if ranking.margin <= goal.margin:
        return f"With 95 % confidence none of {which} is more than {asked} {BETTER[goal.by]}"
    if ranking.margin > MAX_MARGIN:
        return f"It is not known yet by how much any of {which} may be {BETTER[goal.by]}"
    known = math.ceil(1000 * ranking.margin) / 10
    return f"With 95 % confidence none of {which} is more than {known:g} % {BETTER[goal.by]} ({asked} was asked for)"


def _counts(found: Found, group: Hashable) -> str:
    """How many cells were measured how much; each cell counts once."""
    counts: Counter[str] = Counter()
    for i in found.race.groups[group]:
        outcome = found.outcome(i)
        if outcome in (RaceOutcome.failed, RaceOutcome.untried):
            counts[outcome] += 1
        elif i in found.in_full:
            counts["in full"] += 1
        elif outcome == RaceOutcome.over:
            counts[f"over {found.goal.latency_ms:g} ms"] += 1
        else:
            counts["dropped early" if outcome == RaceOutcome.dropped else "only in short windows"] += 1
    in_full = counts.pop("in full", 0)
    were = "was" if in_full == 1 else "were"
    return ", ".join([f"{in_full:,} {were} measured in full", *(f"{num:,} {what}" for what, num in counts.items())])


def _needs_time(found: Found, group: Hashable) -> str:
    """The cells that would be measured with more time; empty without."""
    race = found.race
    num_left = 0 if race.is_decided(group) else len(race.rankings[group].rivals)
    num_untried = sum(not race.candidates[i].was_tried for i in race.groups[group])
    parts = [f"{num_left:,} that may be {BETTER[found.goal.by]}"] if num_left else []
    if num_untried:
        parts.append(f"{num_untried:,} that {'was' if num_untried == 1 else 'were'} not tried")
    return " and ".join(parts)


def _shown_cells(found: Found, group: Hashable, ranking: Ranking) -> list[int]:
    """The leader, then by their speed its rivals and the best of those that dropped out."""
    scores = {i: found.race.candidates[i] for i in found.race.groups[group] if found.race.candidates[i].scores}
    others = sorted(
        (i for i in scores if i not in ranking.left and not scores[i].is_over), key=lambda i: -scores[i].score
    )
    shown = [*ranking.left, *others][:MAX_CELLS]
    return sorted(shown, key=lambda i: (i != ranking.leader, -scores[i].score if i in scores else math.inf))


def _columns(found: Found) -> list[Column[int]]:
    race = found.race

    leaders = {i: race.rankings[group].leader for group, members in race.groups.items() for i in members}

    def behind(i: int) -> float | None:
        leader = leaders[i]
        if leader is None or leader == i:
            return None
        return -100 * math.expm1(race.candidates[i].score - race.candidates[leader].score)

    return [
        Column("with", lambda i: word(found.text(i))),
        Column(UNITS[found.goal.by], lambda i: number(found.value(i))),
        Column("behind (%)", lambda i: number(behind(i), 2)),
        Column("processes", lambda i: count(race.candidates[i].num_samples)),
        Column("in full", lambda i: count(sum(j == i and is_full for j, is_full, _ in found.records) or None)),
        Column("", lambda i: word(found.outcome(i))),
    ]
