"""Measures the two best cells of each question again, interleaved, so that the report can say which is faster."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from rich.console import Console

from accelbench.answers.cells import cells_of
from accelbench.answers.groups import groups
from accelbench.answers.process import Process
from accelbench.compare.sureness import MIN_PROCESSES
from accelbench.isolation.hosts import Hosts
from accelbench.presentation import duration
from accelbench.project import CONFIRMED, PLAN, RESULTS, Workplace, check_inside
from accelbench.report.read import Sweep, read_all
from accelbench.schema.record import Record
from accelbench.schema.serialize import digest, writing
from accelbench.settings import params
from accelbench.settings.config import Retry, SweepOptions
from accelbench.sinks.delivery import Delivery
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
    found = []
    for group in groups(cells_of(process for each in sweeps for process in each.planned)):
        other = next(iter(group.others), None)
        if other is not None and not (lead := group.gap_to(other)).is_interleaved:
            first, second = sorted((group.fastest, other), key=lambda each: each.cell.id)
            found.append(Question(first, second, 1 - 1 / lead.ratio))
    chosen = []
    for question in sorted(found, key=lambda each: (round(each.cost_s), each.lead)):
        if question.cost_s <= budget_s:
            chosen.append(question)
            budget_s -= question.cost_s
    return chosen


def confirm(root: Path, console: Console, hosts: Hosts) -> None:
    """Measures the two best cells of the cheapest questions again, as `confirm_s` in params.yaml says.

    Raises:
        UserError: there are no results, or the processes could not be started.
    """
    wanted = {str(name) for name in params.load(root).suites}
    sweeps = [each for each in read_all(root / RESULTS) if each.folder in wanted]
    chosen, folder = questions(sweeps, params.confirm_s(root)), root / CONFIRMED
    check_inside(folder, root)
    answer(chosen, folder, console, hosts)
    if chosen:
        relate(root, wanted)
    lines = [f"{each.name}: {each.first.cell.label} or {each.second.cell.label}\n" for each in chosen]
    with writing(folder / "questions.txt") as file:  # DVC warns of an output that is an empty folder
        file.write_text("".join(lines))


def answer(chosen: Sequence[Question], folder: Path, console: Console, hosts: Hosts) -> list[Record]:
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
        title = f"{first.label} or {second.label}"
        console.print(
            f"\nQuestion {number} of {len(chosen)}: is {title} faster? "
            f"{MIN_PROCESSES} processes of each, interleaved: about {duration(question.cost_s)}",
            markup=False,
            soft_wrap=True,
        )
        # The same order each time: after an interruption, the records that are there are those of the first processes.
        runs = shuffled_runs(first.cell, second.cell, MIN_PROCESSES, seed=int(question.key, 16))
        options = SweepOptions(
            suite=first.cell.suite, title=title, study=None, profile=None, tracking="mlflow", out=None, retry=Retry.none
        )
        result = sweep.run(runs.cells, options, console, folder / question.name, hosts=hosts)
        save_comparison(runs, (first.label, second.label), result.records, folder / question.name)
        records += result.records
    return records


def relate(root: Path, wanted: Collection[str]) -> None:
    """Tells the tracker how the speeds of the suites' cells compare now that some were confirmed."""
    with Delivery("mlflow", Workplace.of_project(root).store) as delivery:
        delivery.open()
        for each in read_all(root / RESULTS):
            if each.folder in wanted:
                delivery.relate(each.processes)
