"""Makes the data of the page's scripts: the picture of gains, and every cell. Makes the numbers of the first screen.

templates/columns.json describes the columns of the page's table. At first, the table shows only the columns in `main`.
Cells with equal values in all columns of `series` form a line of a chart. A column has these keys:
- `name`: a column of `cells.csv`, or a key that `_beside_csv` adds.
- `kind`: word, number, count, time (may be estimated), or one of three formats of a share: percent, percent2 (with two
  digits) and bar (drawn).
- `better`: `more` if higher values are better, else `less`. Only columns with this key are in charts.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from accelbench.answers.cells import NOT_RUN, MeasuredCell
from accelbench.answers.gaps import DEVICE, ENGINE, PRECISION, Axis, Gap, Pair, Word, pairs, span, told
from accelbench.answers.jobs import Job, kind_of, reference_text, verdict_text
from accelbench.answers.serving import best_settings, capacities
from accelbench.answers.time_to_goal import target_answers
from accelbench.answers.words import (
    DEVICES,
    ENGINES,
    disturbed_text,
    engine_text,
    model_text,
    options_text,
    speed_text,
)
from accelbench.judging.row import warnings_of
from accelbench.judging.warnings import output_error_text, relative_half_width
from accelbench.presentation import counted, significant
from accelbench.report.export import cell_rows
from accelbench.report.read import Sweep, cells_in
from accelbench.schema.cell import Device, Engine, Mode, Precision, Status
from accelbench.schema.record import TRACKING, UNTRACKED, Row
from accelbench.schema.serialize import grouped

MAX_JOBS = 500  # in the picture
Tile = tuple[str, str]  # a number, and the text below it
COLUMNS = json.loads((Path(__file__).parent / "templates" / "columns.json").read_text(encoding="utf-8"))
# Cells with one of these outcomes share a line for each reason.
FOLDED = (Status.skipped, NOT_RUN)


def name_on_page(cell: MeasuredCell) -> str:
    """Returns the cell's unique name for the page's script. It has the folder, as two suites may have the same cell."""
    return f"{cell.folder}/{cell.name}"


def picture_of(jobs: Sequence[Job], folder: str) -> dict[str, Any]:
    """Returns the jobs with gains as plain JSON values for the page's script.

    `folder` is the folder of the results, for the command that the page suggests.
    """
    compared = [job for job in jobs if job.gains]
    rows = []
    for job in compared[:MAX_JOBS]:
        gains = [
            _mark(job, gain) | {"note": note} for gain, note in zip(job.gains, notes_of(job), strict=True)
        ]
        model = model_text(job.fastest)
        rows.append({"name": job.name, "model": model, "data": job.data, "gains": gains})
    return {
        "today": reference_text(compared),
        "sure": f"accelbench compare --top {folder}",
        "num_jobs": len(compared),
        "jobs": rows,
    }


def notes_of(job: Job) -> list[str]:
    """Returns a note for each gain of the job, such as `bf16`: the words in which gains of the same kind differ."""
    kinds = list(map(kind_of, job.gains))
    names = [job.setting(gain.first).replace(",", "").split() for gain in job.gains]
    notes = []
    for kind, name in zip(kinds, names, strict=True):
        alike = [set(words) for words, of in zip(names, kinds, strict=True) if of == kind]
        shared = set.intersection(*alike)
        notes.append(" ".join(word for word in name if word not in shared).strip("+ "))
    return notes


def _mark(job: Job, gain: Gap) -> dict[str, Any]:
    """Returns the values that the picture shows for one setting of a job and for the reference of this setting."""
    return _figures(job, gain, gain.first) | {
        "today": _figures(job, gain, gain.second),
        "kind": kind_of(gain),
        "ratio": gain.ratio,
        "times": significant(gain.ratio, 2),
        "exact": significant(gain.ratio),
        "bounds": gain.bounds,
        "exactly": gain.is_interleaved,
        "within": " to ".join(map(significant, gain.bounds or ())),
        "word": gain.word,
        "why": gain.why,
        "told": gain.is_told,
    }


def _figures(job: Job, gain: Gap, cell: MeasuredCell) -> dict[str, Any]:
    """Returns the values that the page's panel shows for `cell`, which is one of the two cells of `gain`."""
    p50_ms = cell.number("latency_p50_ms")
    return {
        "setting": job.setting(cell),
        "batch": cell.cell.batch_size,
        "rate": cell.speed,
        "interval": [cell.low, cell.high],
        "speed": speed_text(cell.cell, cell.speed),
        "step": "" if p50_ms is None else f"{significant(p50_ms)} ms",
        "error": output_error_text(cell.cell.precision, cell.number("output_error")),
        "doubts": warnings_of(cell.row),
        "cell": name_on_page(cell),
        "command": cell.command,
    }


def tiles(jobs: Sequence[Job], cells: Sequence[MeasuredCell]) -> Iterator[Tile]:
    """Yields the tiles of the first screen, the most important first. A tile is a number with a text below it."""
    for each in best_settings(capacities(cells)):
        if each.rates_text:
            yield f"{each.rates_text} requests/s", f"{each.what}: {each.setting}, {each.limit_text}"
    for answer in target_answers(cells):
        if answer.fastest:
            yield answer.fastest.median_text, f"{answer.what}: {answer.fastest.name}"
    for job in jobs:
        if job.fastest.cell.mode == Mode.generate:
            yield job.rate, f"{job.what}: {job.text(job.fastest)}"
    found = [each for axis in (DEVICE, PRECISION, ENGINE) for each in _of_axis(axis, pairs(cells, axis))]
    yield from (tile for _, tile in sorted(found, key=lambda each: -each[0]))


def _of_axis(axis: Axis, found: Sequence[Pair]) -> Iterator[tuple[int, Tile]]:
    """Yields a number of ratios and a tile for each value of a setting on each device.

    Only ratios that are sure or likely count. If a value has no such ratio, it has no tile.
    """
    several = len({pair.cell.cell.device for pair in found}) > 1 and axis is not DEVICE
    for (value, device), alike in grouped(found, lambda pair: (pair.value, pair.cell.cell.device)).items():
        ratios = told(alike)
        if not ratios:
            continue
        engine = alike[0].cell.cell.engine
        name = DEVICES[device] if axis is DEVICE else value.replace(engine, ENGINES[engine], 1)
        on = f" on {DEVICES[device]}" if several else ""
        about = f"over {axis.base_text} in {len(ratios)} of {counted(len(alike), 'pair')}"
        about += f", {Word.likely if any(pair.gap.word == Word.likely for pair in alike) else Word.sure}"
        yield len(ratios), (f"{name}{on} {span(ratios, 2)}x", about)


def every_cell(sweeps: Sequence[Sweep], jobs: Sequence[Job]) -> dict[str, Any]:
    """Returns the data of all cells for the page's script, as plain JSON values, in the order of the plans.

    `columns` are the columns of the table in which any cell has a value. `rows` has, for each cell, the values of the
    keys in `names`.
    """
    csv_rows = list(cell_rows(sweeps))
    job_of = {cell.measured_key: job for job in jobs for cell in job.cells}
    rows = []
    for row, cell in zip(csv_rows, cells_in(sweeps), strict=True):
        rows.append(row | _beside_csv(cell) | _place_in(job_of.get(cell.measured_key), cell))
    columns = [
        each
        for each in COLUMNS["main"] + COLUMNS["more"]
        if any(row[each["name"]] is not None for row in rows)
    ]
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


def _beside_csv(cell: MeasuredCell) -> Row:
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
