"""Defines the table of the cells that are best by each criterion, which `accelbench best` prints."""

from accelbench.answers.cells import MeasuredCell
from accelbench.answers.jobs import Job
from accelbench.judging.row import warnings_of
from accelbench.judging.warnings import relative_half_width
from accelbench.report.tables.table import Column, Entry, columns_of, count, number
from accelbench.schema.vocab import Mode

NOTE = (
    "A cell's speed and cost are computed from all its processes. The other numbers are from the process whose speed "
    "is nearest to the cell's speed. ±: half of the speed's 95 % interval. Doubts: the number of reasons to doubt the "
    "cell's numbers. The table of every cell lists the reasons."
)
# A recommended cell, and the criteria that it is best by, such as `throughput, latency`.
Choice = tuple[Job, MeasuredCell, str]


def _half_width(cell: MeasuredCell) -> Entry:
    width = relative_half_width(cell.row)
    return number(None if width is None else 100 * width, 2)


def _num_doubts(cell: MeasuredCell) -> int | None:
    return len(warnings_of(cell.row)) or None


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
    Column("doubts", _num_doubts, count),
]
OF_ALL: list[Column[Choice]] = [
    Column("what", lambda choice: choice[0].what),
    Column("best by", lambda choice: choice[2]),
    Column("with", lambda choice: choice[0].text(choice[1])),
    *columns_of(lambda choice: choice[1], FIGURES),
]
