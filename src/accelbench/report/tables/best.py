"""Makes the tables of recommendations: the fastest settings with their gains, and the best cells by each criterion."""

from collections.abc import Sequence

from accelbench.answers.cells import NOTE as SURENESS
from accelbench.answers.cells import Gap, MeasuredCell
from accelbench.answers.jobs import Job
from accelbench.answers.reference import Group, choices
from accelbench.answers.sentences import Answer
from accelbench.judging.row import warnings_of
from accelbench.judging.warnings import output_error_text, relative_half_width
from accelbench.presentation import significant
from accelbench.report.gains import MARKS
from accelbench.report.tables.table import Column, Entry, Table, columns_of, count, number, speed, tabulate_known
from accelbench.schema.vocab import Mode

NOTE = (
    "A cell's speed and cost are computed from all its processes. The other numbers are from the process whose speed "
    "is nearest to the cell's speed. ±: half of the speed's 95 % interval. Doubts: the number of reasons to doubt the "
    "cell's numbers. The table of every cell lists the reasons."
)
COMPARED = (
    "Reference: the setting that was asked for first, at the same batch. Doubts: the number of reasons to doubt the "
    "numbers of the two settings."
)
# A recommended cell, and the criteria that it is best by, such as `throughput, latency`.
Choice = tuple[Group, MeasuredCell, str]


def _half_width(cell: MeasuredCell) -> Entry:
    width = relative_half_width(cell.row)
    return number(None if width is None else 100 * width, 2)


def _num_doubts(cells: Sequence[MeasuredCell]) -> int | None:
    return sum(len(warnings_of(cell.row)) for cell in cells) or None


# Figures of a cell.
FIGURES: list[Column[MeasuredCell]] = [
    Column("samples/s", lambda cell: None if cell.cell.mode == Mode.generate else cell.speed, number),
    Column("tokens/s", "tokens_per_s", number),
    Column("± (%)", _half_width),
    Column("first token (ms)", "ttft_ms", number),
    Column("a token (ms)", "tpot_p50_ms", number),
    Column("p50 (ms)", "latency_p50_ms", number),
    Column("J/sample", "energy_j_per_sample", number),
    Column("cost of a million", "cost_per_million_samples", number),
    Column("bound by", lambda cell: cell.row["bound"]),
    Column("doubts", lambda cell: _num_doubts([cell]), count),
]
OF_ALL: list[Column[Choice]] = [
    Column("what", lambda choice: choice[0].what),
    Column("best by", lambda choice: choice[2]),
    Column("with", lambda choice: choice[0].short_text(choice[1])),
    *columns_of(lambda choice: choice[1], FIGURES),
]


def by_criterion(answers: Sequence[Answer]) -> Table | None:
    """Lists each job's cells that are best by latency, energy or cost. The fastest cell of a job is left out.

    Returns None if there are no such cells.
    """
    chosen: list[Choice] = []
    for answer in answers:
        chosen += [choice for choice in choices(answer.group) if choice[1] is not answer.fastest]
    return tabulate_known("What else is worth choosing, by latency, energy or cost", OF_ALL, chosen, [NOTE])


def of_jobs(jobs: Sequence[Job]) -> Table | None:
    """Makes a row for each job. It shows the job's largest gain, or its fastest cell if the job has no gains."""
    columns: list[Column[Job]] = [
        Column("job", lambda job: job.name),
        Column("setting", lambda job: job.choice),
        Column("samples/s", lambda job: speed(job.cell)),
        Column("± (%)", lambda job: _half_width(job.cell)),
        Column("reference", lambda job: job.reference and speed(job.reference)),
        Column("which is", lambda job: job.reference and job.name_of(job.reference)),
        Column("times as fast", lambda job: _sure_ratio(job.gain) if job.gains else None),
        Column("why", lambda job: job.gain.how_sure if job.gains else None),
        Column(
            "output differs from fp32's by",
            lambda job: output_error_text(job.cell.cell.precision, job.cell.number("output_error")),
        ),
        Column("doubts", lambda job: _num_doubts([*filter(None, [job.cell, job.reference])]), count),
    ]
    return tabulate_known("Each job", columns, jobs, [COMPARED, SURENESS])


def _sure_ratio(gain: Gap) -> Entry:
    return Entry(f"{significant(gain.ratio)} {MARKS[gain.word]}", gain.ratio)
