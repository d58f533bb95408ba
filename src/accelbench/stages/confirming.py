"""Measures the two best cells of each question again, interleaved, so that the report can say which is faster."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from rich.console import Console

from accelbench.answers.cells import MeasuredCell, cells_of
from accelbench.answers.groups import groups
from accelbench.answers.process import Process
from accelbench.compare.sureness import MIN_PROCESSES
from accelbench.isolation.hosts import Hosts
from accelbench.presentation import duration
from accelbench.project import PLAN
from accelbench.report.read import Sweep
from accelbench.schema.record import Record
from accelbench.schema.serialize import digest
from accelbench.settings.config import Retry, SweepOptions
from accelbench.sweep import run as sweep
from accelbench.sweep.interleaved import save_comparison, shuffled_runs


@dataclass(frozen=True)
class Question:
    """Which of the two best cells of a model and a mode is faster; their order does not depend on their speeds."""

    first: Process
    second: Process
    lead: float  # of the faster one, as a share of its speed

    @cached_property
    def key(self) -> str:
        """Hexadecimal digits; equal for the same two cells."""
        return digest([self.first.cell.id, self.second.cell.id])[:8]

    @property
    def name(self) -> str:  # of its folder
        return f"{self.first.cell.suite}-{self.key}"

    @property
    def cost_s(self) -> float:
        """Seconds that its processes will take, from what one of each took."""
        took_s = [reported.record.wall_s for reported in (self.first, self.second) if reported.record]
        return MIN_PROCESSES * sum(took_s)


def questions(sweeps: Sequence[Sweep], budget_s: float) -> list[Question]:
    """The questions that are worth asking: the cheapest that are not answered yet, and of these the closest first.

    The same questions are chosen before and after they were answered. All of them together take `budget_s`.
    """
    chosen, left_s = [], budget_s
    planned = cells_of(each for sweep in sweeps for each in sweep.planned)
    for question in sorted(_open(planned), key=lambda each: (round(each.cost_s), each.lead)):
        if question.cost_s <= left_s:
            chosen.append(question)
            left_s -= question.cost_s
    return chosen


def _open(cells: Iterable[MeasuredCell]) -> Iterator[Question]:
    for group in groups(cells):
        other = next(iter(group.others), None)
        if other is not None and not (lead := group.gap_to(other)).is_interleaved:
            first, second = sorted((group.fastest, other), key=lambda each: each.cell.id)
            yield Question(first, second, 1 - 1 / lead.ratio)


def confirm(chosen: Sequence[Question], folder: Path, console: Console, hosts: Hosts) -> list[Record]:
    """Answers the questions, each into a folder of its own below `folder`; returns the records.

    Records of an earlier call count if they are of the same cells, machine and code. The folders of other questions
    lose their plans, so that the report does not read them; their records stay.
    """
    folder.mkdir(exist_ok=True)
    for plan in folder.glob(f"*/{PLAN}"):
        if plan.parent.name not in {question.name for question in chosen}:
            plan.unlink()
    records = []
    for number, question in enumerate(chosen, 1):
        first, second = question.first, question.second
        console.print(
            f"\nQuestion {number} of {len(chosen)}: is {first.label} or {second.label} faster? "
            f"{MIN_PROCESSES} processes of each, interleaved: about {duration(question.cost_s)}",
            markup=False,
            soft_wrap=True,
        )
        records += _answer(question, folder / question.name, console, hosts)
    return records


def _answer(question: Question, folder: Path, console: Console, hosts: Hosts) -> list[Record]:
    first, second = question.first, question.second
    # The same order each time: after an interruption, the records that are there are those of the first processes.
    runs = shuffled_runs(first.cell, second.cell, MIN_PROCESSES, seed=int(question.key, 16))
    title = f"{first.label} or {second.label}"
    options = SweepOptions(
        suite=first.cell.suite, title=title, study=None, profile=None, tracking="mlflow", out=None, retry=Retry.none
    )
    result = sweep.run(runs.cells, options, console, folder, hosts=hosts)
    save_comparison(runs, (first.label, second.label), result.records, folder)
    return result.records
