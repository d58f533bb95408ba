"""Measures again, interleaved, what answers compare: which of two cells is faster, until that is sure."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from accelbench.answers.cells import cells_of
from accelbench.answers.process import Process
from accelbench.answers.reference import groups
from accelbench.compare.sureness import MIN_PROCESSES
from accelbench.isolation.hosts import Hosts
from accelbench.presentation import duration, say
from accelbench.report.read import Sweep
from accelbench.schema.record import TRACKING, UNTRACKED, Record
from accelbench.schema.serialize import digest
from accelbench.settings.config import Retry, SweepOptions
from accelbench.sweep import run as sweep
from accelbench.sweep.interleaved import save_comparison, shuffled_runs


@dataclass(frozen=True)
class Question:
    """Which is faster, the best cell of a model and mode or its rival; their order does not depend on their speeds."""

    first: Process
    second: Process
    cost_s: float  # that its processes will take, from what one of each took
    ratio: float  # of the faster one's speed to the other's

    @property
    def key(self) -> str:
        """Hexadecimal digits; equal for the same two cells."""
        return digest([self.first.cell.id, self.second.cell.id])[:8]

    @property
    def name(self) -> str:  # of its folder
        return f"{self.first.cell.suite}-{self.key}"

    @property
    def tracking(self) -> str:
        """Where its records are delivered: nowhere, if those that it is about were not."""
        return UNTRACKED if self.first.environment.get(TRACKING) == UNTRACKED else "mlflow"

    @property
    def title(self) -> str:
        return f"{self.first.label} or {self.second.label}"


def questions(sweeps: Sequence[Sweep], budget_s: float) -> list[Question]:
    """The questions that are worth asking: the cheapest that are not answered yet, and of these the closest first.

    The same questions are chosen before and after they were answered. All of them together take `budget_s`.
    """
    found = []
    for group in groups(cells_of(process for each in sweeps for process in each.planned)):
        lead = group.lead
        if lead is not None and group.others and not lead.is_interleaved:
            first, second = sorted((lead.first, lead.second), key=lambda each: each.cell.id)
            cost_s = MIN_PROCESSES * sum(each.record.wall_s for each in (first, second) if each.record)
            found.append(Question(first, second, cost_s, lead.ratio))
    chosen = []
    for question in sorted(found, key=lambda each: (round(each.cost_s), each.ratio)):
        if question.cost_s <= budget_s:
            chosen.append(question)
            budget_s -= question.cost_s
    return chosen


def answer(chosen: Sequence[Question], folder: Path, console: Console, hosts: Hosts) -> list[Record]:
    """Answers the questions, each into a folder of its own below `folder`; returns the records.

    Records of an earlier call count if they are of the same cells, machine and code.
    """
    folder.mkdir(exist_ok=True)
    records = []
    for number, question in enumerate(chosen, 1):
        took = f"({2 * MIN_PROCESSES} cells, interleaved, about {duration(question.cost_s)})"
        say(console, f"\nQuestion {number} of {len(chosen)} {took}: is {question.title} faster?", "bold")
        # The same order each time: after an interruption, the records that are there are those of the first processes.
        runs = shuffled_runs(question.first.cell, question.second.cell, MIN_PROCESSES, seed=int(question.key, 16))
        suite = question.first.cell.suite
        place = folder / question.name
        options = SweepOptions(
            suite=suite,
            title=question.title,
            study=None,
            profile=None,
            tracking=question.tracking,
            out=None,
            retry=Retry.none,
        )
        result = sweep.run(runs.cells, options, console, place, hosts=hosts, show=lambda _: None)
        save_comparison(runs, (question.first.label, question.second.label), result.records, place)
        records += result.records
        for group in groups(cells_of(map(Process.of, result.records))):
            if lead := group.lead:
                say(console, f"{group.text(group.fastest)}: {lead.text} as {group.text(lead.second)} ({lead.how_sure})")
    return records
