"""What to use: the fastest settings with their sureness, and the best cells by each criterion."""

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
    "Best by each known criterion. The speed of a cell is of all its processes, its other figures are of the one "
    "nearest to it. ± is half of the speed's 95 % interval. Doubts: how many the cell has; the table of every cell has "
    "their text."
)
COMPARED = (
    "Compared with: the setting that was asked for first, at the same batch; else the fastest other one of that batch. "
    "Times as fast: the fastest over it. Doubts: how many these two have."
)
# A cell that is worth choosing, and what it is best by, such as `throughput, latency`.
Choice = tuple[Group, MeasuredCell, str]


def _half_width(cell: MeasuredCell) -> Entry:
    width = relative_half_width(cell.row)
    return number(None if width is None else 100 * width, 2)


def _output_error(cell: MeasuredCell) -> str:
    return output_error_text(cell.cell.precision, cell.number("output_error"))


def _num_doubts(cells: Sequence[MeasuredCell]) -> int | None:
    return sum(len(warnings_of(cell.row)) for cell in cells) or None


# What a cell achieved.
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
OF_ONE: list[Column[Choice]] = [
    Column("best by", lambda choice: choice[2]),
    Column("with", lambda choice: choice[0].short_text(choice[1])),
    *columns_of(lambda choice: choice[1], FIGURES),
]
OF_ALL: list[Column[Choice]] = [Column("what", lambda choice: choice[0].what), *OF_ONE]


def by_criterion(answers: Sequence[Answer]) -> Table | None:
    """The cells that are worth choosing beside the fastest of each model and mode; None without any."""
    chosen: list[Choice] = []
    for answer in answers:
        chosen += [choice for choice in choices(answer.group) if choice[1] is not answer.fastest]
    return tabulate_known("What else is worth choosing, by latency, energy or cost", OF_ALL, chosen, [NOTE])


def what_to_use(answers: Sequence[Answer]) -> Table | None:
    """A line for each model and what is done with it: its fastest cell, and the next best; None if no cell is ok."""
    columns: list[Column[Answer]] = [
        Column("model, and what is done", lambda answer: answer.group.what),
        Column("most samples/s with", lambda answer: answer.group.short_text(answer.fastest)),
        Column("samples/s", lambda answer: speed(answer.fastest)),
        Column("± (%)", lambda answer: _half_width(answer.fastest)),
        Column("compared with", lambda answer: answer.lead and answer.group.short_text(answer.lead.second)),
        Column("its samples/s", lambda answer: answer.lead and speed(answer.lead.second)),
        Column("times as fast", lambda answer: answer.lead and answer.lead.ratio, number),
        Column("how sure", lambda answer: answer.lead and answer.lead.how_sure),
        Column("output differs from fp32's by", lambda answer: _output_error(answer.fastest)),
        Column("doubts", lambda answer: _num_doubts([answer.fastest, *filter(None, [answer.group.rival])]), count),
    ]
    return tabulate_known("What to use", columns, answers, [COMPARED, SURENESS])


def in_short(jobs: Sequence[Job]) -> Table | None:
    """A line for each job: its largest gain over the reference; its fastest cell, if nothing compares with it."""
    columns: list[Column[Job]] = [
        Column("job", lambda job: job.name),
        Column("setting", lambda job: job.choice),
        Column("samples/s", lambda job: speed(job.cell)),
        Column("reference", lambda job: speed(job.gain.second) if job.gains else None),
        Column("times as fast", lambda job: _sure_ratio(job.gain) if job.gains else None),
    ]
    return tabulate_known("Each job", columns, jobs)


def _sure_ratio(gain: Gap) -> Entry:
    return Entry(f"{significant(gain.ratio)} {MARKS[gain.word]}", gain.ratio)
