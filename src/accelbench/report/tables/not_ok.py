"""Which cells are not ok, and why."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from accelbench.answers.process import NOT_RUN, UNREADABLE
from accelbench.judging.disturbed import DISTURBED
from accelbench.report.read import ReportedCell, Sweep
from accelbench.report.tables.table import Column, Table, count, tabulate, word
from accelbench.schema.vocab import UNEXPECTED, Status

LABELS_SHOWN = 2


@dataclass(frozen=True)
class _SameReason:
    """The cells that share an outcome and its reason."""

    outcome: str
    reason: str | None
    cells: list[ReportedCell]


@dataclass(frozen=True)
class _Failure:
    suite: str
    reported: ReportedCell


REASON_COLUMNS: list[Column[_SameReason]] = [
    Column("status", lambda group: word(group.outcome)),
    Column("cells", lambda group: count(len(group.cells))),
    Column("reason", lambda group: word(group.reason)),
    Column("which", lambda group: word(_some(reported.label for reported in group.cells))),
    Column("suites", lambda group: word(", ".join(dict.fromkeys(reported.cell.suite for reported in group.cells)))),
]
FAILURE_COLUMNS: list[Column[_Failure]] = [
    Column("suite", lambda failure: word(failure.suite)),
    Column("cell", lambda failure: word(failure.reported.label)),
    Column("status", lambda failure: word(failure.reported.outcome)),
    Column("reason", lambda failure: word(failure.reported.reason)),
    Column("last line of the error", lambda failure: word(_last_line(failure.reported))),
]


def reasons(sweeps: Sequence[Sweep]) -> Table | None:
    """The cells that are not ok by their reason, unexpected failures first; None if all are ok."""
    groups: dict[tuple[str, str | None], list[ReportedCell]] = defaultdict(list)
    for reported in (reported for sweep in sweeps for reported in sweep.planned if not reported.is_ok):
        groups[reported.outcome, reported.reason].append(reported)
    order = [*(status for status in Status if status in UNEXPECTED), DISTURBED, UNREADABLE, NOT_RUN, Status.skipped]
    same = [_SameReason(outcome, reason, cells) for (outcome, reason), cells in groups.items()]
    same.sort(key=lambda group: (order.index(group.outcome), -len(group.cells)))
    notes = ["processes.csv lists all of them."]
    return tabulate("What is missing, and why", REASON_COLUMNS, same, notes) if same else None


def failures(sweeps: Sequence[Sweep]) -> Table | None:
    """Each cell that failed unexpectedly, with the last line of its error; None if none did."""
    failed = [
        _Failure(sweep.suite, reported)
        for sweep in sweeps
        for reported in sweep.planned
        if reported.record is not None and reported.record.status in UNEXPECTED
    ]
    return tabulate("Failed, cell by cell", FAILURE_COLUMNS, failed) if failed else None


def _last_line(reported: ReportedCell) -> str | None:
    lines = ((reported.record.error if reported.record else None) or "").strip().splitlines()
    return lines[-1].strip() if lines else None


def _some(labels: Iterable[str]) -> str:
    """The first labels, and how many more there are."""
    shown = list(labels)
    more = len(shown) - LABELS_SHOWN
    return ", ".join(shown[:LABELS_SHOWN]) + (f" and {more} more" if more > 0 else "")
