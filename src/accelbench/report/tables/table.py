"""A table of texts with the keys that it is sorted by, the same for HTML, markdown and the terminal."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Generic, TypeVar

from accelbench.presentation import UNKNOWN, exact, significant
from accelbench.schema.record import Value

UserModule = TypeVar("UserModule")
Part = TypeVar("Part")


@dataclass(frozen=True)
class Entry:
    """What one cell of a table shows, and the number or text that it is sorted by; None if unknown."""

    text: str
    key: float | str | None


@dataclass(frozen=True)
class Column(Generic[UserModule]):
    """A column of a table.

    Attributes:
        heading: shown above it.
        entry: makes the column's entry from the object that a row is about.
    """

    heading: str
    entry: Callable[[UserModule], Entry]


def columns_of(
    part: Callable[[UserModule], Part], columns: Iterable[Column[Part]], *headings: str
) -> list[Column[UserModule]]:
    """The columns with these headings, about a part of each subject.

    Args:
        part: gives the part.
        columns: about it, among which the headings choose.
        headings: in the order of the result.
    """
    entries = {column.heading: column.entry for column in columns}

    def entry_of(heading: str) -> Callable[[UserModule], Entry]:
        return lambda subject: entries[heading](part(subject))

    return [Column(heading, entry_of(heading)) for heading in headings]


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table.

    Attributes:
        notes: what a reader must know to read it, a sentence or two each.
    """

    title: str
    headings: list[str]
    rows: list[list[Entry]]
    notes: list[str] = field(default_factory=list)

    @cached_property
    def numeric(self) -> list[bool]:
        """For each column, whether it holds numbers."""
        return [any(isinstance(row[i].key, int | float) for row in self.rows) for i in range(len(self.headings))]

    def without_unknown_columns(self) -> "Table":
        """The same table without the columns that hold no known value."""
        keep = [i for i in range(len(self.headings)) if any(row[i].text != UNKNOWN for row in self.rows)]
        return replace(
            self,
            headings=[self.headings[i] for i in keep],
            rows=[[row[i] for i in keep] for row in self.rows],
        )


def tabulate(
    title: str, columns: Sequence[Column[UserModule]], subjects: Iterable[UserModule], notes: Sequence[str] = ()
) -> Table:
    """The table with a row per subject and every column."""
    return Table(
        title=title,
        headings=[column.heading for column in columns],
        rows=[[column.entry(subject) for column in columns] for subject in subjects],
        notes=list(notes),
    )


def tabulate_known(
    title: str, columns: Sequence[Column[UserModule]], subjects: Iterable[UserModule], notes: Sequence[str] = ()
) -> Table | None:
    """The table without the columns that hold no known value; None without subjects."""
    made = tabulate(title, columns, subjects, notes)
    return made.without_unknown_columns() if made.rows else None


def word(text: str | None) -> Entry:
    """An entry that is text."""
    return Entry(text or UNKNOWN, text)


def number(value: Value, digits: int = 3) -> Entry:
    """An entry that is a number, shown with `digits` significant digits."""
    known = float(value) if value is not None else None
    return Entry(significant(known, digits), known)


def count(value: Value) -> Entry:
    """An entry that is a whole number."""
    known = int(value) if value is not None else None
    return Entry(exact(known), known)


def percent(share: Value) -> Entry:
    """An entry that shows a share of 1 in percent."""
    return number(100 * float(share) if share is not None else None)
