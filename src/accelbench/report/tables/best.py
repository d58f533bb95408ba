"""The best cells by each criterion: of all workloads in one table, or of one in a table that fits a terminal."""

from collections.abc import Sequence
from dataclasses import dataclass

from accelbench.answers.best import choices
from accelbench.answers.cells import MeasuredCell
from accelbench.answers.groups import Group
from accelbench.answers.ranking import Answer
from accelbench.answers.words import options_text
from accelbench.judging.row import warnings_of
from accelbench.judging.warnings import relative_half_width
from accelbench.report.tables.table import Column, Entry, Table, columns_of, count, number, tabulate_known, word

NOTE = (
    "The best cell by each known criterion. Unbeaten: no other cell is at least as good by all criteria that are known "
    "of every cell. The speed of a cell is the median of its processes; its other figures are of the process that is "
    "nearest to it. ± is half of the speed's 95 % interval. Warnings: how many the cell has; the table of every cell "
    "has their text."
)


@dataclass(frozen=True)
class Choice:
    """A cell that is worth choosing, and what it is best by, such as `throughput, latency`."""

    group: Group
    cell: MeasuredCell
    criteria: str


def half_width_entry(cell: MeasuredCell) -> Entry:
    """Half of the interval of the speed, in percent of it."""
    width = relative_half_width(cell.row)
    return number(None if width is None else 100 * width, 2)


def num_warnings(cell: MeasuredCell) -> Entry:
    """How many warnings a cell has; a dash if it has none."""
    return count(len(warnings_of(cell.row)) or None)


# What a cell achieved.
FIGURES: list[Column[MeasuredCell]] = [
    Column("samples/s", lambda cell: number(cell.speed)),
    Column("± (%)", half_width_entry),
    Column("tokens/s", lambda cell: number(cell.row["tokens_per_s"])),
    Column("p50 (ms)", lambda cell: number(cell.row["latency_p50_ms"])),
    Column("J/sample", lambda cell: number(cell.row["energy_j_per_sample"])),
    Column("cost of a million", lambda cell: number(cell.row["cost_per_million_samples"])),
    Column("bound by", lambda cell: word(str(cell.row["bound"]) if cell.row["bound"] else None)),
    Column("warnings", num_warnings),
]
BEST_BY: Column[Choice] = Column("best by", lambda choice: word(choice.criteria))
OF_ALL: list[Column[Choice]] = [
    Column("what", lambda choice: word(choice.group.what)),
    BEST_BY,
    Column("device", lambda choice: word(choice.cell.cell.device)),
    Column("precision", lambda choice: word(choice.cell.cell.precision)),
    Column("options", lambda choice: word(options_text(choice.cell.row))),
    Column("batch", lambda choice: count(choice.cell.cell.batch_size)),
    *columns_of(lambda choice: choice.cell, FIGURES, *(column.heading for column in FIGURES)),
]
OF_ONE: list[Column[Choice]] = [
    BEST_BY,
    Column("with", lambda choice: word(choice.group.short_text(choice.cell))),
    *columns_of(lambda choice: choice.cell, FIGURES, *(column.heading for column in FIGURES)),
]


def table(answers: Sequence[Answer]) -> Table | None:
    """What to use, for each model and what is done with it; None if no cell is ok."""
    chosen = [choice for answer in answers for choice in chosen_of(answer.group)]
    return tabulate_known("What to use, by each criterion", OF_ALL, chosen, [NOTE])


def chosen_of(group: Group) -> list[Choice]:
    """The cells of a group that are worth choosing."""
    return [Choice(group, cell, criteria) for cell, criteria in choices(group.cells)]
