"""Collects every cell with its main numbers. The page's script draws, filters and lists them.

templates/columns.json describes the columns of the page's table. At first, the table shows only the columns in `main`.
Cells with equal values in all columns of `series` form a line of a chart. A column has these keys:
- `name`: a column of `cells.csv`, or a key that `extension` adds.
- `kind`: word, number, count, time (may be estimated), or one of three formats of a share: percent, percent2 (with two
  digits) and bar (drawn).
- `better`: `more` if higher values are better, else `less`. Only columns with this key are in charts.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from accelbench.answers.cells import NOT_RUN, MeasuredCell
from accelbench.answers.jobs import Job, verdict_text
from accelbench.answers.words import disturbed_text, engine_text, options_text
from accelbench.judging.warnings import relative_half_width
from accelbench.report.export import cell_rows
from accelbench.report.read import Sweep, cells_in
from accelbench.schema.record import TRACKING, UNTRACKED, Row
from accelbench.schema.vocab import Device, Engine, Mode, Precision, Status

COLUMNS = json.loads((Path(__file__).parent / "templates" / "columns.json").read_text(encoding="utf-8"))
# Cells with one of these outcomes share a line for each reason.
FOLDED = (Status.skipped, NOT_RUN)


def cells(sweeps: Sequence[Sweep], jobs: Sequence[Job]) -> dict[str, Any]:
    """Returns the data of all cells for the page's script, as plain JSON values, in the order of the plans.

    `columns` are the columns of the table in which any cell has a value. `rows` has, for each cell, the values of the
    keys in `names`.
    """
    csv_rows = list(cell_rows(sweeps))
    job_of = {cell.measured_key: job for job in jobs for cell in job.cells}
    rows = []
    for row, cell in zip(csv_rows, cells_in(sweeps), strict=True):
        rows.append(row | extension(cell) | _place_in(job_of.get(cell.measured_key), cell))
    columns = [each for each in COLUMNS["main"] + COLUMNS["more"] if any(row[each["name"]] is not None for row in rows)]
    metrics = []
    for column in columns:
        if "better" in column:
            bounds = {end: f"{column['name']}_{end}" for end in ("low", "high")}
            metrics.append(column | bounds | {"heading": column.get("title", column["heading"])})
    return {
        "names": list(rows[0]) if rows else [],
        "rows": [list(row.values()) for row in rows],
        "csv": list(csv_rows[0]) if csv_rows else [],
        "columns": columns,
        "main": [column["name"] for column in COLUMNS["main"]],
        "folded": FOLDED,
        "filters": [[heading, name] for name, heading in COLUMNS["filters"].items()],
        "metrics": metrics,
        "series": COLUMNS["series"],
        "order": [*Status, *Mode, *Device, *Precision, *Engine],
    }


def _place_in(job: Job | None, cell: MeasuredCell) -> Row:
    """Returns the cell's place in its job: the job's name, the cell's setting, command, share and gain.

    The share is the cell's speed divided by the job's highest speed. If the cell is in no job, all values are None.
    """
    if job is None:
        return dict.fromkeys(("job", "setting", "command", "share", "against"))
    return {
        "job": job.name,
        "setting": job.setting(cell),
        "command": cell.command,
        "share": (cell.speed or 0.0) / (job.fastest.speed or 1.0),
        "against": verdict_text(job, cell) or None,
    }


def name_on_page(cell: MeasuredCell) -> str:
    """Returns the cell's unique name for the page's script. It has the folder, as two suites may have the same cell."""
    return f"{cell.folder}/{cell.name}"


def extension(cell: MeasuredCell) -> Row:
    """Returns what the page needs of a cell besides its row in `cells.csv`: names, options, outcome and remarks."""
    row = cell.row
    measured = cell.record.measurement if cell.record else None
    return {
        "name": name_on_page(cell),
        "label": cell.label,
        "folder": cell.folder,
        "options": options_text(row | {"engine": Engine.pytorch}),  # the page shows the engine as a filter
        "framework": engine_text(row),
        "outcome": cell.outcome,
        "half_width": relative_half_width(row),
        "tracked": cell.environment.get(TRACKING) != UNTRACKED,
        "checked": ", ".join(measured.checked) if measured else None,
        "remark": disturbed_text(cell) if cell.disturbed else cell.reason or row["warnings"] or row["reason"],
    }
