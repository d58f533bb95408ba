"""Measures a job's best cell and its rival again, interleaved, to see which of them is faster."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from accelbench.answers.cells import MIN_PROCESSES, Process, cells_of
from accelbench.answers.jobs import jobs
from accelbench.isolation.hosts import Hosts
from accelbench.presentation import duration, say
from accelbench.report.read import Sweep
from accelbench.schema.record import TRACKING, Record
from accelbench.schema.serialize import digest
from accelbench.settings.config import SweepOptions
from accelbench.sweep import run as sweep
from accelbench.sweep.interleaved import save_comparison, shuffled_runs


@dataclass(frozen=True)
class Question:
    """The question whether a job's best cell is faster than the cell that it is compared with.

    If one of the cells is the job's reference, it is `first`. Otherwise `first` is the cell with the smaller id.
    """

    first: Process
    second: Process
    cost_s: float  # expected seconds of its processes, from the duration of one process of each cell
    ratio: float  # speed of the faster cell, divided by the speed of the slower cell

    @property
    def key(self) -> str:
        """Hexadecimal digits, equal for the same two cells."""
        return digest([self.first.cell.id, self.second.cell.id])[:8]

    @property
    def name(self) -> str:  # name of its folder
        return f"{self.first.cell.suite}-{self.key}"

    @property
    def tracking(self) -> str:
        """The setting `tracking` of the sweep that measured `first`. The answer's records get it, too."""
        return str(self.first.environment.get(TRACKING, "mlflow"))

    @property
    def title(self) -> str:
        return f"{self.first.label} or {self.second.label}"


def questions(sweeps: Sequence[Sweep], budget_s: float) -> list[Question]:
    """Returns questions that together fit into `budget_s`. They are sorted by cost, then by the ratio of speeds.

    The records of earlier answers are ignored. So a repeated call chooses the same questions.
    """
    possible = []
    for job in jobs(cells_of(process for one in sweeps for process in one.planned)):
        lead = job.lead
        if lead is not None and not lead.is_interleaved:
            first, second = sorted(
                (lead.first, lead.second), key=lambda process: (not job.is_reference(process), process.cell.id)
            )
            cost_s = MIN_PROCESSES * sum(process.record.wall_s for process in (first, second) if process.record)
            possible.append(Question(first, second, cost_s, lead.ratio))
    chosen = []
    for question in sorted(possible, key=lambda question: (round(question.cost_s), question.ratio)):
        if question.cost_s <= budget_s:
            chosen.append(question)
            budget_s -= question.cost_s
    return chosen


def answer(chosen: Sequence[Question], folder: Path, console: Console, hosts: Hosts) -> list[Record]:
    """Answers each question in its own folder below `folder`, and returns the records.

    Uses the records of an earlier call if cells, machine and code are the same.
    """
    folder.mkdir(exist_ok=True)
    records = []
    for number, question in enumerate(chosen, 1):
        took = f"({2 * MIN_PROCESSES} cells, interleaved, about {duration(question.cost_s)})"
        say(console, f"\nQuestion {number} of {len(chosen)} {took}: is {question.title} faster?", "bold")
        # Each call has the same order. So after an interruption, the existing records are from the first processes.
        runs = shuffled_runs(question.first.cell, question.second.cell, MIN_PROCESSES, seed=int(question.key, 16))
        place = folder / question.name
        options = SweepOptions(suite=question.first.cell.suite, title=question.title, tracking=question.tracking)
        result = sweep.run(runs.cells, options, console, place, hosts=hosts, show=lambda _: None)
        save_comparison(runs, (question.first.label, question.second.label), result.records, place)
        records += result.records
        for job in jobs(cells_of(map(Process.of, result.records))):
            if lead := job.lead:
                say(console, f"{job.text(job.fastest)}: {lead.text} as {job.text(lead.second)} ({lead.how_sure})")
    return records
