"""The values that MLflow shows: the runs of processes and cells, and the view of an experiment.

If a cell has one process, the run of this process is also the run of the cell. If a cell has several processes, their
runs are below a parent run, which is the run of the cell. An experiment's description has the newest sweep's answer.
"""

import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import MISSING, replace
from datetime import datetime
from io import StringIO
from pathlib import Path
from textwrap import indent
from typing import NamedTuple
from urllib.parse import quote

from rich.console import Console
from rich.text import Text

from accelbench.answers import headline
from accelbench.answers.cells import NUM_PROCESSES, PROCESS_SETTINGS, MeasuredCell, Process
from accelbench.answers.jobs import REFERENCE, Job, jobs
from accelbench.answers.words import speed_text, speed_unit
from accelbench.judging.row import SERIES, remarks_in, served_text
from accelbench.judging.warnings import Kind, interval_text
from accelbench.presentation import shortened
from accelbench.schema.cell import Cell, Status, value_text
from accelbench.schema.measurement import Data, SystemSeries
from accelbench.schema.record import Record
from accelbench.schema.serialize import canonical_json, flat, grouped
from accelbench.schema.setting import declared
from accelbench.schema.text import clean

MAX_COLUMNS = 12  # metrics of a run, besides speed, share and curves; people read no more
MAX_NAME = 26  # characters of a run's name; the column in view.json is as wide
# Metrics besides `speed` and `share`: columns of cells.csv, the most important first.
_COLUMNS = """
samples_per_s_low samples_per_s_high accuracy requests_per_s request_p99_ms miss_share target_s target_epochs ttft_ms
tpot_p50_ms latency_p50_ms time_s energy_j_per_sample peak_device_mb peak_host_mb mfu compile_s latency_p99_ms
output_error batch_size
"""
COLUMNS = _COLUMNS.split()
# Parameters of every run. A run also has parameters for the settings that differ from their defaults.
PARAMS = ("model", "mode", "engine", "device", "precision", "batch_size")
MAX_TAG, MAX_PARAM = 8000, 500  # characters of a tag and of a parameter: MLflow's limits
NOTE = "mlflow.note.content"  # the tag that MLflow shows as the description of a run or an experiment
# Tags. A process's run has `record` and `cell`. A cell's run has `cell`, `sweep` and `word`.
RECORD, CELL, SWEEP, WORD = "record", "cell", "sweep", "word"
ABOUT_WIDTH = 100  # columns of an experiment's description
ALONE = "alone"  # the word of a cell without another cell to compare with
MAX_POINTS = 240  # points of one series: a chart shows no more; the record keeps all
# The columns and charts of the saved view, as MLflow 3.17 keeps them.
VIEW = Path(__file__).parent / "view.json"
VIEW_KEY = "accelbench"
VIEW_TAG = f"mlflow.sharedViewState.{VIEW_KEY}"
CARD_WIDTH, MAX_BARS = 100, 8  # columns and bars of card.html

Key = tuple[str, int]  # a record's name and its start in milliseconds; together they identify its run


class Point(NamedTuple):
    """One value of a metric. `step` is its number in the series."""

    key: str
    value: float | None  # None: unknown, and not written
    timestamp_ms: int
    step: int


class Run(NamedTuple):
    """A run. Times are milliseconds since 1970, UTC."""

    name: str
    start_ms: int
    end_ms: int
    tags: dict[str, str]  # the description, in markdown, is one of them
    metrics: dict[str, float] = {}
    params: dict[str, str] = {}
    series: Sequence[Point] = ()
    files: dict[str, str] = {}  # name -> text
    data: Data | None = None
    status: str = "FINISHED"  # or `FAILED`, `KILLED`


def start_ms(of: Record | Process) -> int:
    """The start of a process, in milliseconds since 1970, UTC."""
    return round(datetime.fromisoformat(of.started_at).timestamp() * 1000)


def ran(processes: Iterable[Process]) -> list[Process]:
    """The processes that have a record and were not skipped."""
    return [process for process in processes if process.record and process.record.status != Status.skipped]


def sweep_of(records: Iterable[Record]) -> str:
    """Names the sweep of the newest record. Characters that MLflow can't search for become _."""
    newest = max(record.sweep_id or record.started_at for record in records)
    return re.sub(r"[^\w.:+-]", "_", newest, flags=re.ASCII)


def run_name(cell: Cell) -> str:
    """Names a cell's run, such as `mlp infer keras fp32 b128`. Cuts what is before the precision to fit `MAX_NAME`."""
    label = replace(cell, repeat=0, seed=0).label  # a cell has one name for all its processes
    before, _, options = label.partition(f"-{cell.precision}-b{cell.batch_size}-{cell.mode}")
    model, _, device = before.rpartition("-")
    every = [model, cell.mode, "" if device == "cpu" else device, *options.split("-")]
    last = f" {cell.precision} b{cell.batch_size}"
    return shortened(" ".join(filter(None, every)), MAX_NAME - len(last)) + last


def of_process(record: Record) -> Run:
    """The run of a process."""
    run = _run(Process.of(record), [record])
    return run._replace(
        tags=run.tags | {RECORD: record.name},
        files=run.files | {"record.json": json.dumps(record.to_json(), indent=1)},
        series=_thinned([*_curves(record), *_system(record)]),
    )


def of_cells(cells: Sequence[MeasuredCell]) -> list[Run]:
    """Returns a run for each cell that ran, except for cells of older code.

    The run has the comparison with other cells. If the cell has one process, it becomes this process's run. If the cell
    has several processes, it becomes the parent of their runs.
    """
    by_key = {cell.measured_key: job for job in jobs(cells) for cell in job.cells}
    return [
        _of_cell(cell, by_key.get(cell.measured_key)) for cell in cells if ran([cell]) and not cell.is_older
    ]


def _of_cell(cell: MeasuredCell, job: Job | None) -> Run:
    records = [process.record for process in cell.counted or cell.processes if process.record]
    word: str = ALONE if cell.speed else cell.outcome
    answer, share = "", None
    if job and len(job.cells) > 1:
        share = (cell.speed or 0.0) / (job.fastest.speed or 1.0)
        gain = job.gain_of(cell)
        if job.is_reference(cell):
            word = answer = REFERENCE
        elif gain is not None:
            word = gain.word
            answer = f"{gain.text} as {job.text(gain.second)} ({word})"
    run = _run(cell, records, answer, share, job)
    params = {name: text for name, text in run.params.items() if name not in PROCESS_SETTINGS}
    return run._replace(params=params, series=_thinned(_means(cell.processes)), tags=run.tags | {WORD: word})


def about(cells: Sequence[MeasuredCell]) -> str:
    """Describes a sweep: its answer, then the text of the report's headline.txt."""
    answered = jobs(cells)
    lines = [line.plain for line in headline.summary(answered, cells, ABOUT_WIDTH)]
    if len(answered) == 1:
        lines.insert(0, f"{answered[0].what}: {answered[0].sentence}")
    first = lines[0] or "Nothing was compared"
    block = indent("\n".join(lines[1:]).strip("\n"), "    ")
    return clean(f"**{first}**\n\n{block}")[:MAX_TAG]


def _run(
    process: Process,
    records: Sequence[Record],
    answer: str = "",
    share: float | None = None,
    job: Job | None = None,
) -> Run:
    """Makes the run of a process or of a cell.

    Args:
        answer: the cell's speed compared with the reference, in words; may be empty.
        share: the cell's speed divided by the speed of the fastest cell.
        job: the cells that are compared; None if there is only one.
    """
    record = process.record
    assert record is not None
    name = run_name(process.cell)
    metrics = _metrics(process, share)
    stand_in = f"stand-in for {record.data.name}" if record.data and record.data.stand_in else ""
    words = [
        word for word in (answer, _outcome(process), str(process.row["device_name"] or ""), stand_in) if word
    ]
    remarks = [f"{kind.name}: {text}" for kind in Kind for text in remarks_in(process.row, kind)]
    note = [" · ".join([f"**{words[0]}**", *words[1:]])]
    note += [f"- {remark}" for remark in remarks]
    tags = {CELL: process.measured_key, SWEEP: sweep_of(records), NOTE: clean("\n\n".join(note))[:MAX_TAG]}
    if commit := (record.environment.get("git") or {}).get("revision"):
        tags["mlflow.source.git.commit"] = clean(commit)
    bars = headline.of_one(job, CARD_WIDTH, MAX_BARS) if job else ()
    card = [Text(name, "bold"), " · ".join(words), "", *bars, *remarks, record.error or ""]
    return Run(
        name,
        min(map(start_ms, records)),
        max(map(_end_ms, records)),
        tags,
        metrics,
        _params(record),
        files={"card.html": _html(card)},
        data=None if record.cell.model.batch else record.data,
        # A disturbed process counts as finished. Its description gives the reason why its speed is missing.
        status={Status.ok: "FINISHED", Status.killed: "KILLED"}.get(record.status, "FAILED"),
    )


def _end_ms(record: Record) -> int:
    return start_ms(record) + round(record.wall_s * 1000)


def _html(lines: Iterable[Text | str]) -> str:
    """Returns a page with these lines."""
    console = Console(record=True, file=StringIO(), width=CARD_WIDTH)
    for line in lines:
        console.print(clean(line) if isinstance(line, str) else line, markup=False, highlight=False)
    return console.export_html(inline_styles=True)


def _metrics(process: Process, share: float | None) -> dict[str, float]:
    """Returns a run's metrics. Speed and share are rounded to three digits, others to four, and counts not."""
    row = process.row
    rate = process.number("samples_per_s")
    rounded = {"speed": None if rate is None else rate * speed_unit(process.cell)[0], "share": share}
    metrics = {name: float(f"{value:.2e}") for name, value in rounded.items() if value is not None}
    columns = [name for name in COLUMNS if row[name] is not None][:MAX_COLUMNS]
    for name in (NUM_PROCESSES, *columns):
        value = row.get(name)  # only a cell has NUM_PROCESSES
        if value is not None:
            metrics[name] = float(value) if isinstance(value, int) else float(f"{value:.4g}")
    return metrics


def _outcome(process: Process) -> str:
    """Returns the speed, such as `204,000 samples/s ±21 %`, or the reason why there is none."""
    row = process.row
    if row["samples_per_s"] is None:
        why = served_text(row) if process.is_ok else process.reason
        return f"{process.outcome}: {why}" if why else process.outcome
    return f"{speed_text(process.cell, process.number('samples_per_s'))} {interval_text(row)}".rstrip()


def _params(record: Record) -> dict[str, str]:
    """Returns a run's parameters: `PARAMS`, the data, and every setting that differs from its default.

    A parameter is named like a column of cells.csv, or is a dotted path.
    """
    params = dict.fromkeys(PARAMS, "")
    settings = {setting.path: setting for setting in declared(Cell)}
    for path, text in flat(record.cell.settings()).items():
        setting = settings.get(path)
        name = path.removesuffix(".name")  # `model` is `model.name`
        if setting and setting.column:
            name = setting.column
        default = setting.field.default if setting else MISSING
        if name in PARAMS or (text != "null" and (default is MISSING or text != canonical_json(default))):
            params[name] = value_text(json.loads(text))
    if record.data and not record.cell.model.batch:
        params["data"] = record.data.name + (" (stand-in)" if record.data.stand_in else "")
    return {name: clean(text)[:MAX_PARAM] for name, text in params.items()}


def _curves(record: Record) -> Iterator[Point]:
    """Yields accuracy and loss for each epoch, and a target's metric for each evaluation."""
    measured = record.measurement
    if measured is None or not Process.of(record).is_ok:
        return
    for number, epoch in enumerate(measured.epochs, 1):
        for kind, part in (("", epoch), ("test_", epoch.evaluation)):
            if part is not None:
                yield Point(f"epoch/{kind}accuracy", part.accuracy, _end_ms(record), number)
                yield Point(f"epoch/{kind}loss", part.loss, _end_ms(record), number)
    key = "target/" + re.sub(r"[^\w\-. /]", "_", record.cell.target.metric)
    for evaluation in measured.target.evaluations if measured.target else ():
        yield Point(
            key, evaluation.value, start_ms(record) + round(1000 * evaluation.ended_s), evaluation.num_steps
        )


def _system(record: Record) -> Iterator[Point]:
    """Yields the system metrics that were sampled during the process."""
    system = record.system or SystemSeries()
    for name, values in system.values.items():
        for step, (t_s, value) in enumerate(zip(system.t_s, values, strict=True)):
            yield Point(f"system/{name}", value, start_ms(record) + round(1000 * t_s), step)


def _means(processes: Iterable[Process]) -> Iterator[Point]:
    """Yields system metrics: the mean of each process is one point."""
    # Peak memory is known even of failed processes.
    names = {**SERIES, "peak_host_mb": "peak_host_memory_mb"}
    for step, process in enumerate(sorted(processes, key=lambda process: process.started_at)):
        for column, name in names.items():
            yield Point(f"system/{name}", process.number(column), start_ms(process), step)


def _thinned(points: Iterable[Point]) -> list[Point]:
    """Keeps every k-th known value of each series, at most `MAX_POINTS`."""
    chosen = []
    for series in grouped(
        (point for point in points if point.value is not None), lambda point: point.key
    ).values():
        chosen += series[:: math.ceil(len(series) / MAX_POINTS)]
    return chosen


def experiment_tags(sweep: str, about: str) -> dict[str, str]:
    """Returns the tags of an experiment: its description, and its saved view, which shows the cells of this sweep."""
    state = json.loads(VIEW.read_text()) | {"searchFilter": search(sweep)}
    view = {"name": VIEW_KEY, "createdAt": 0, "state": json.dumps(state)}
    # Without a kind, MLflow's UI guesses one and asks the user to confirm it.
    return {
        VIEW_TAG: json.dumps(view),
        "mlflow.experimentKind": "custom_model_development",
        SWEEP: sweep,
        NOTE: about,
    }


def search(sweep: str) -> str:
    """Returns MLflow's search condition for the runs of a sweep. LIKE is needed, as a cell may be in several sweeps."""
    return f"tags.{SWEEP} LIKE '%{sweep}%'"


def view_url(base: str, experiment_id: str) -> str:
    """The page of the experiment's saved view on the server at `base`."""
    query = f"workflowType=machine_learning&viewStateShareKey={VIEW_KEY}&compareRunsMode=TABLE"
    return f"{base.rstrip('/')}/#/experiments/{quote(experiment_id, safe='')}/runs?{query}"
