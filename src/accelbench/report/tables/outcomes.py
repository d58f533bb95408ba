"""Lists the outcomes of planned cells, and the reasons of cells that are not ok."""

from collections import Counter
from collections.abc import Iterable, Sequence

from accelbench.answers.cells import NOT_RUN, OLDER, UNREADABLE, MeasuredCell
from accelbench.judging.verdict import DISTURBED
from accelbench.report.tables.table import Column, Table, count, tabulate
from accelbench.schema.serialize import grouped
from accelbench.schema.vocab import UNEXPECTED, Status

LABELS_SHOWN = 2
# Outcomes, in the order in which they are shown.
ORDER = [*(word for word in Status if word in UNEXPECTED), DISTURBED, OLDER, UNREADABLE, NOT_RUN, Status.skipped]
REASON_COLUMNS: list[Column[list[MeasuredCell]]] = [  # a row is about cells with one outcome and reason
    Column("status", lambda same: same[0].outcome),
    Column("cells", len, count),
    Column("reason", lambda same: same[0].reason),
    Column("such as", lambda same: ", ".join(cell.label for cell in same[:LABELS_SHOWN])),
    Column("suites", lambda same: ", ".join(dict.fromkeys(cell.cell.suite for cell in same))),
]


def counts(cells: Iterable[MeasuredCell]) -> dict[str, int]:
    """Outcome -> number of cells, ok first."""
    nums = Counter(cell.outcome for cell in cells)
    return {word: nums[word] for word in (Status.ok, *ORDER) if nums[word]}


def reasons(cells: Sequence[MeasuredCell]) -> Table | None:
    """Makes a row for each reason why cells are not ok, unexpected failures first. Returns None if all cells are ok."""
    bad = (cell for cell in cells if not cell.is_ok)
    groups = grouped(bad, lambda cell: (cell.outcome, cell.reason)).values()
    same = sorted(groups, key=lambda alike: (ORDER.index(alike[0].outcome), -len(alike)))
    notes = ["cells.csv lists all of them."]
    return tabulate("What is missing, and why", REASON_COLUMNS, same, notes) if same else None
