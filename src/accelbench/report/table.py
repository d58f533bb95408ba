"""Defines tables. A column has a heading, a value and a format. HTML, markdown and the terminal show the same table."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar

from rich import box
from rich.table import Table as RichTable
from rich.text import Text

from accelbench.answers.cells import MeasuredCell
from accelbench.answers.jobs import Job
from accelbench.judging.row import warnings_of
from accelbench.judging.warnings import relative_half_width
from accelbench.presentation import UNKNOWN, exact, significant
from accelbench.schema.cell import Mode
from accelbench.schema.record import Value

Subject = TypeVar("Subject")
Part = TypeVar("Part")


@dataclass(frozen=True)
class Entry:
    """The text in one cell of a table, and the number or text to sort by. Its key is None if the value is unknown."""

    text: str
    key: float | str | None


def word(value: object) -> Entry:
    """Returns an entry with a text. If `value` is an entry already, returns it unchanged."""
    if isinstance(value, Entry):
        return value
    return Entry(str(value), str(value)) if value else Entry(UNKNOWN, None)


def number(value: Value, digits: int = 3) -> Entry:
    """Returns an entry with a number. Its text has `digits` significant digits."""
    known = float(value) if value is not None else None
    return Entry(significant(known, digits), known)


def count(value: Value) -> Entry:
    """An entry that is a whole number."""
    known = int(value) if value is not None else None
    return Entry(exact(known), known)


def percent(share: Value, digits: int = 3) -> Entry:
    """An entry that shows a share of 1 in percent."""
    return number(100 * float(share) if share is not None else None, digits)


@dataclass(frozen=True)
class Column(Generic[Subject]):
    """A column of a table. It has a heading, a function that computes the value from the row's subject, and a format.

    Instead of the function, it may have a name. Then the value is `subject.number(name)`.
    """

    heading: str
    value: Callable[[Subject], Any] | str
    format: Callable[[Any], Entry] = word

    def entry(self, subject: Any) -> Entry:
        """The column's entry for `subject`."""
        return self.format(subject.number(self.value) if isinstance(self.value, str) else self.value(subject))


def columns_of(part: Callable[[Subject], Part], columns: Iterable[Column[Part]]) -> list[Column[Subject]]:
    """Makes columns for subjects that have a cell (or another part) from `columns` for cells. `part` returns it."""

    def of(column: Column[Part]) -> Column[Subject]:
        return Column(column.heading, lambda subject: column.entry(part(subject)))

    return list(map(of, columns))


class Dot(NamedTuple):
    """A dot that the page draws on an axis. Its place is in percent of the axis. Its colour is that of its device."""

    place: float
    what: str
    look: str


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table. Its notes explain it. The page draws the `dots` of each row on one axis."""

    title: str
    headings: list[str]
    rows: list[list[Entry]]
    notes: list[str] = field(default_factory=list)
    dots: list[list[Dot]] = field(default_factory=list)
    # Its labels at their places; the first has a line.
    axis: list[tuple[float, str]] = field(default_factory=list)

    @cached_property
    def numeric(self) -> list[bool]:
        """For each column, whether its values are numbers."""
        return [
            any(isinstance(row[i].key, int | float) for row in self.rows) for i in range(len(self.headings))
        ]


def tabulate(
    title: str, columns: Sequence[Column[Subject]], subjects: Iterable[Subject], notes: Sequence[str] = ()
) -> Table:
    """Makes a table with all columns, and with a row for each subject."""
    rows = [[column.entry(subject) for column in columns] for subject in subjects]
    return Table(title=title, headings=[column.heading for column in columns], rows=rows, notes=list(notes))


def tabulate_known(
    title: str, columns: Sequence[Column[Subject]], subjects: Iterable[Subject], notes: Sequence[str] = ()
) -> Table | None:
    """Makes a table without the columns in which all values are unknown. Returns None if there are no subjects."""
    made = tabulate(title, columns, subjects, notes)
    keep = [i for i in range(len(columns)) if any(row[i].text != UNKNOWN for row in made.rows)]
    headings = [made.headings[i] for i in keep]
    rows = [[row[i] for i in keep] for row in made.rows]
    return replace(made, headings=headings, rows=rows) if made.rows else None


WORD_WIDTH = 12  # words up to this length are not broken on a narrow terminal


def rendered(table: Table, width: int) -> RichTable:
    """Renders `table` for rich, at most `width` characters wide if possible.

    If the table is too wide, columns are narrowed, one character at a time. The next column to be narrowed is the one
    with the largest `width - length of its longest word`. A longer word than `WORD_WIDTH` counts as `WORD_WIDTH`.
    """
    columns = [*zip(table.headings, *([entry.text for entry in row] for row in table.rows), strict=True)]
    widths = [max(map(len, texts)) for texts in columns]
    words = [[word for text in texts for word in text.split()] for texts in columns]
    rooms = [
        most - min(WORD_WIDTH, max(map(len, each), default=0))
        for most, each in zip(widths, words, strict=True)
    ]
    while sum(widths) + 2 * len(widths) > width and max(rooms) > 0:
        roomiest = rooms.index(max(rooms))
        widths[roomiest] -= 1
        rooms[roomiest] -= 1
    made = RichTable(
        title=table.title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0)
    )
    for heading, numeric, taken in zip(table.headings, table.numeric, widths, strict=True):
        made.add_column(heading, justify="right" if numeric else "left", overflow="fold", max_width=taken)
    for row in table.rows:
        made.add_row(*(Text(entry.text) for entry in row))
    return made


# The table of the cells that are best by each criterion, which `accelbench best` prints.
BEST_NOTE = (
    "A cell's speed and cost are computed from all its processes. The other numbers are from the process whose speed "
    "is nearest to the cell's speed. ±: half of the speed's 95 % interval. Doubts: the number of reasons to doubt the "
    "cell's numbers. The reasons are in the report (`accelbench report`)."
)
# A recommended cell, and the criteria that it is best by, such as `throughput, latency`.
Choice = tuple[Job, MeasuredCell, str]


# Figures of a cell.
FIGURES: list[Column[MeasuredCell]] = [
    Column("samples/s", lambda cell: None if cell.cell.mode == Mode.generate else cell.speed, number),
    Column("tokens/s", "tokens_per_s", number),
    Column("± (%)", lambda cell: relative_half_width(cell.row), lambda share: percent(share, 2)),
    Column("first token (ms)", "ttft_ms", number),
    Column("a token (ms)", "tpot_p50_ms", number),
    Column("p50 (ms)", "latency_p50_ms", number),
    Column("J/sample", "energy_j_per_sample", number),
    Column("cost of a million", "cost_per_million_samples", number),
    Column("bound by", lambda cell: cell.row["bound"]),
    Column("doubts", lambda cell: len(warnings_of(cell.row)) or None, count),
]
BEST: list[Column[Choice]] = [
    Column("what", lambda choice: choice[0].what),
    Column("best by", lambda choice: choice[2]),
    Column("with", lambda choice: choice[0].text(choice[1])),
    *columns_of(lambda choice: choice[1], FIGURES),
]
