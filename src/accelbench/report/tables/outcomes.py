"""Lists the outcomes of planned cells: the measured devices, the cells that are not ok, and the reasons."""

from collections import Counter
from collections.abc import Iterable, Sequence

from accelbench.answers.cells import MeasuredCell
from accelbench.answers.process import NOT_RUN, OLDER, UNREADABLE, Process
from accelbench.judging.verdict import DISTURBED
from accelbench.report.read import Sweep
from accelbench.report.tables.table import Column, Table, count, tabulate
from accelbench.schema.serialize import grouped
from accelbench.schema.vocab import UNEXPECTED, Device, Status

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
FAILURE_COLUMNS: list[Column[Process]] = [
    Column("suite", lambda process: process.cell.suite),
    Column("process", lambda process: process.label),
    Column("status", lambda process: process.outcome),
    Column("reason", lambda process: process.reason),
    Column("last line of the error", lambda process: _last_line(process)),
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


def failures(sweeps: Sequence[Sweep]) -> Table | None:
    """Lists the processes that failed unexpectedly, with the last line of the error. Returns None if none failed."""
    planned = [process for sweep in sweeps for process in sweep.planned]
    failed = [process for process in planned if process.outcome in UNEXPECTED]
    return tabulate("Failed, process by process", FAILURE_COLUMNS, failed) if failed else None


def _last_line(process: Process) -> str | None:
    lines = ((process.record.error if process.record else None) or "").strip().splitlines()
    return lines[-1].strip() if lines else None


def device_texts(cells: Sequence[MeasuredCell]) -> list[str]:
    """Returns the measured devices with their names: `cpu: AMD EPYC`. The headline explains why a device is missing."""
    names: dict[Device, dict[str, None]] = {}
    for cell in cells:
        if cell.is_ok:
            names.setdefault(cell.cell.device, {})[str(cell.row["device_name"] or "unknown")] = None
    return [f"{device}: {'; '.join(names[device])}" for device in Device if device in names]
