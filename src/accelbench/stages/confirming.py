"""Measures the two best cells of each question again, interleaved, so that the report can say which is faster."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
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
    key: str  # hexadecimal digits; equal for the same two cells
    cost_s: float  # that its processes will take, from what one of each took
    ratio: float  # of the faster one's speed to the other's

    @property
    def name(self) -> str:  # of its folder
        return f"{self.first.cell.suite}-{self.key}"

    @property
    def title(self) -> str:
        return f"{self.first.label} or {self.second.label}"


def questions(sweeps: Sequence[Sweep], budget_s: float) -> list[Question]:
    """The questions that are worth asking: the cheapest that are not answered yet, and of these the closest first.

    The same questions are chosen before and after they were answered. All of them together take `budget_s`.
    """
    found = []
    for group in groups(cells_of(process for each in sweeps for process in each.planned)):
        other = next(iter(group.others), None)
        if other is not None and not (lead := group.gap_to(other)).is_interleaved:
            first, second = sorted((group.fastest, other), key=lambda each: each.cell.id)
            cost_s = MIN_PROCESSES * sum(each.record.wall_s for each in (first, second) if each.record)
            found.append(Question(first, second, digest([first.cell.id, second.cell.id])[:8], cost_s, lead.ratio))
    chosen = []
    for question in sorted(found, key=lambda each: (round(each.cost_s), each.ratio)):
        if question.cost_s <= budget_s:
            chosen.append(question)
            budget_s -= question.cost_s
    return chosen


def confirm(root: Path, console: Console, hosts: Hosts) -> None:
    """Measures the two best cells of the cheapest questions again, in the time of `confirm_s`. Raises UserError."""
    wanted = {str(name) for name in params.load(root).suites}
    sweeps = [each for each in read_all(root / RESULTS) if each.folder in wanted]
    chosen, folder = questions(sweeps, params.confirm_s(root)), root / CONFIRMED
    check_inside(folder, root)
    answer(chosen, folder, console, hosts)
    if chosen:
        relate(root, wanted)
    with writing(folder / "questions.txt") as file:  # DVC warns of an output that is an empty folder
        file.write_text("".join(f"{each.name}: {each.title}\n" for each in chosen))


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
        ask = f"Question {number} of {len(chosen)}: is {question.title} faster? {MIN_PROCESSES} processes of each"
        took = f"interleaved: about {duration(question.cost_s)}"
        console.print(f"\n{ask}, {took}", markup=False, soft_wrap=True)
        # The same order each time: after an interruption, the records that are there are those of the first processes.
        runs = shuffled_runs(question.first.cell, question.second.cell, MIN_PROCESSES, seed=int(question.key, 16))
        suite, title = question.first.cell.suite, question.title
        options = SweepOptions(
            suite=suite, title=title, study=None, profile=None, tracking="mlflow", out=None, retry=Retry.none
        )
        result = sweep.run(runs.cells, options, console, folder / question.name, hosts=hosts)
        save_comparison(runs, (question.first.label, question.second.label), result.records, folder / question.name)
        records += result.records
    return records


def relate(root: Path, wanted: Collection[str]) -> None:
    """Tells the tracker how the speeds of the suites' cells compare now that some were confirmed."""
    with Delivery("mlflow", Workplace.of_project(root).store) as delivery:
        delivery.open()
        for each in read_all(root / RESULTS):
            if each.folder in wanted:
                delivery.relate(each.processes)
