"""A table as text with the keys that it sorts by: the same for HTML and markdown."""

from dataclasses import dataclass, field, replace
from functools import cached_property

from accelbench.presentation import UNKNOWN, exact, significant
from accelbench.schema.record import Value


@dataclass(frozen=True)
class Entry:
    """What a table's cell shows, and what it sorts by: a number, text, or None where it is unknown."""

    text: str
    key: float | str | None


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
        """Whether a column holds numbers, for each."""
        return [any(isinstance(row[i].key, int | float) for row in self.rows) for i in range(len(self.headings))]

    def known(self) -> "Table":
        """The same without the columns that hold no known value."""
        keep = [i for i in range(len(self.headings)) if any(row[i].text != UNKNOWN for row in self.rows)]
        return replace(
            self,
            headings=[self.headings[i] for i in keep],
            rows=[[row[i] for i in keep] for row in self.rows],
        )


def word(text: str | None) -> Entry:
    """An entry that is text."""
    return Entry(text or UNKNOWN, text)


def number(value: Value, digits: int = 3) -> Entry:
    """An entry that is a number with so many significant digits."""
    known = float(value) if value is not None else None
    return Entry(significant(known, digits), known)


def count(value: Value) -> Entry:
    """An entry that is a whole number."""
    known = int(value) if value is not None else None
    return Entry(exact(known), known)


def percent(share: Value) -> Entry:
    """An entry that shows a share of 1 in percent."""
    return number(100 * float(share) if share is not None else None)
