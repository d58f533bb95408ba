"""Measures a job's best cell and its rival again, interleaved, to see which of them is faster."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from accelbench.answers.cells import MIN_PROCESSES, Process, cells_of
from accelbench.answers.gaps import Gap
from accelbench.answers.jobs import jobs
from accelbench.isolation.hosts import Hosts
from accelbench.presentation import duration, say
from accelbench.report.read import Sweep
from accelbench.schema.record import TRACKING, Record
from accelbench.schema.serialize import digest
from accelbench.settings.config import SweepOptions
from accelbench.sweep import run as sweep
from accelbench.sweep.interleaved import save_comparison, shuffled_runs


def questions(sweeps: Sequence[Sweep], budget_s: float) -> list[Gap]:
    """Returns the leads of jobs that can be measured within `budget_s`, sorted by cost, then by the ratio of speeds.

    The records of earlier answers are ignored. So a repeated call chooses the same questions.
    """
    leads = [job.lead for job in jobs(cells_of(process for one in sweeps for process in one.planned))]
    possible = [lead for lead in leads if lead is not None and not lead.is_interleaved]
    chosen = []
    for lead in sorted(possible, key=lambda lead: (round(lead.cost_s), lead.ratio)):
        if lead.cost_s <= budget_s:
            chosen.append(lead)
            budget_s -= lead.cost_s
    return chosen


def folder_of(lead: Gap) -> str:
    """Returns the name of a question's folder. It does not depend on which cell is faster."""
    ids = sorted(cell.cell.id for cell in (lead.first, lead.second))
    return f"{lead.first.cell.suite}-{digest(ids)[:8]}"


def answer(chosen: Sequence[Gap], folder: Path, console: Console, hosts: Hosts) -> list[Record]:
    """Answers each question in its own folder below `folder`, and returns the records.

    Uses the records of an earlier call if cells, machine and code are the same.
    """
    folder.mkdir(exist_ok=True)
    records = []
    for number, lead in enumerate(chosen, 1):
        # The reference was measured before the other cell, so that lines compare the other cell with the reference.
        first, second = sorted((lead.first, lead.second), key=lambda cell: cell.started_at)
        title = f"{first.label} or {second.label}"
        took = f"({2 * MIN_PROCESSES} runs, interleaved, about {duration(lead.cost_s)})"
        say(console, f"\nQuestion {number} of {len(chosen)} {took}: is {title} faster?", "bold")
        place = folder / folder_of(lead)
        # Each call has the same order. So after an interruption, the existing records are from the first processes.
        runs = shuffled_runs(first.cell, second.cell, MIN_PROCESSES, seed=int(place.name[-8:], 16))
        tracking = str(first.environment.get(TRACKING, "mlflow"))
        options = SweepOptions(suite=first.cell.suite, title=title, tracking=tracking)
        result = sweep.run(runs.cells, options, console, place, hosts=hosts, show=lambda _: None)
        save_comparison(runs, (first.label, second.label), result.records, place)
        records += result.records
        for job in jobs(cells_of(map(Process.of, result.records))):
            if again := job.lead:
                say(
                    console,
                    f"{job.text(job.fastest)}: {again.text} as {job.text(again.second)} ({again.how_sure})",
                )
    return records
