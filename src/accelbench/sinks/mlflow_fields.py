"""What MLflow shows, in plain values: runs' names and fields, how speeds compare, and the view of an experiment."""

import base64
import dataclasses
import json
import math
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from accelbench.answers.arrivals import target_answers
from accelbench.answers.cells import MeasuredCell
from accelbench.answers.groups import Group, groups
from accelbench.answers.process import PROCESS_SETTINGS, Process
from accelbench.answers.sentences import FASTEST, verdict_text
from accelbench.answers.serving import capacities
from accelbench.answers.words import speed_text
from accelbench.judging import generated, served, target
from accelbench.judging.disturbed import DISTURBED
from accelbench.judging.row import remarks_in, summarise
from accelbench.judging.warnings import Kind, relative_half_width
from accelbench.presentation import significant
from accelbench.schema import plan_file
from accelbench.schema.cell import Cell
from accelbench.schema.measurement import Data, Epoch, TargetTraining
from accelbench.schema.record import Record, Row, number_of
from accelbench.schema.serialize import canonical_json, digest
from accelbench.schema.setting import declared
from accelbench.schema.text import clean
from accelbench.schema.vocab import Phase, Status


def _in(section: str, columns: str) -> dict[str, str]:
    """Metrics that have the names of their columns. MLflow groups its charts by the word before the slash."""
    return {f"{section}/{column}": column for column in columns.split()}


# Metric -> column of cells.csv.
SETTINGS = {"setting/batch_size": "batch_size"}
OUTCOME = {"time/wall_s": "wall_s", "memory/peak_host_mb": "peak_host_mb"}
MEASURED = {
    **_in("speed", "samples_per_s samples_per_s_low samples_per_s_high tokens_per_s mfu flops_per_s"),
    **_in("speed", "ceiling_flops_per_s"),
    **_in("work", "flops_per_sample bytes_per_sample num_operators"),
    **{f"latency/p{p}_ms{end}": f"latency_p{p}_ms{end}" for p in (50, 90, 99) for end in ("", "_low", "_high")},
    **_in("latency", "launch_p50_ms"),
    **_in("breakdown", "data_wait_ms data_wait_share copy_in_ms compute_ms copy_out_ms"),
    **{f"breakdown/{phase}_phase_ms": f"breakdown_{phase}_ms" for phase in Phase},
    "breakdown/disturbance": "breakdown_disturbance",
    **_in("steady", "num_blocks num_steps num_outliers num_warmup_steps"),
    "time/job_s": "time_s",
    **_in("time", "build_s export_s quantize_s compile_s num_compiles num_fallbacks first_step_s evaluation_s"),
    **_in("memory", "artifact_mb peak_device_mb mean_host_mb mean_gpu_used_mb"),
    "utilization/cpu_percent": "cpu_utilization_percent",
    "utilization/other_cpu_percent": "other_cpu_utilization_percent",
    "utilization/gpu_percent": "gpu_utilization_percent",
    **_in("utilization", "system_time_share page_faults_per_s gpu_temperature_c gpu_clock_mhz"),
    "energy/j_per_sample": "energy_j_per_sample",
    **_in("energy", "gpu_power_w cost_per_million_samples"),
    **_in("quality", "accuracy fp32_accuracy accuracy_change accuracy_change_low accuracy_change_high"),
    **_in("quality", "train_accuracy output_error loss test_loss"),
    **{f"requests/{column}": column for column in served.COLUMNS if column != "verdict"},
    **{f"target/{column}": column for column in target.COLUMNS},
    **_in("generation", " ".join(generated.COLUMNS)),
    **_in("setting", "num_params batch_size_per_device num_devices"),
}
# Series over the epochs, from 1 on, as the studies plot them: metric -> its value.
EPOCHS: dict[str, Callable[[Epoch], float | None]] = {
    "epoch/time_s": lambda epoch: epoch.seconds,
    "epoch/accuracy": lambda epoch: epoch.accuracy,
    "epoch/loss": lambda epoch: epoch.loss,
    "epoch/test_accuracy": lambda epoch: epoch.evaluation.accuracy if epoch.evaluation else None,
    "epoch/test_loss": lambda epoch: epoch.evaluation.loss if epoch.evaluation else None,
}
# Parameters that are columns: every setting that has one, besides the suite, a tag. The others have their paths.
PARAMS = ("model", "engine", "device", "arguments", *(each.column for each in declared(Cell) if each.said.column))
# Characters of a parameter's value, and of the begin of a longer one: its digest follows.
MAX_PARAM, MAX_BEGIN = 500, 480
MAX_TAG = 8000  # MLflow's limit of characters
# Columns of its tags.
TAGS = (
    *("disturbed", "time_provenance", "stopped", "bound", "busiest_operators", "allocator_library", "cudnn_benchmark"),
    *("energy_provenance", "settled", "device_name"),
)
NOTE = "mlflow.note.content"  # the tag that MLflow shows as the run's description
# The run of a cell. Its metrics' names differ from a measurement's, so that no chart mixes them.
KIND, AGGREGATE, CELL_KEY = "accelbench.kind", "aggregate", "accelbench.cell_key"
HISTORY = "accelbench.history"  # `Process.history_key`, as a tag: equal for a cell of newer and of older code
IS_CELL = f"tags.`{KIND}` = '{AGGREGATE}'"  # as MLflow searches
NUM_PROCESSES = "cell/num_processes"
# MLflow's page that compares runs opens with the first metric that was written.
CELL_COLUMNS = (
    *("samples_per_s", "samples_per_s_low", "samples_per_s_high", "latency_p50_ms", "energy_j_per_sample", "accuracy"),
    *("requests_per_s", "request_p99_ms", "miss_share", "target_s", "target_epochs"),
    *("ttft_ms", "tpot_p50_ms", "decode_tokens_per_s"),
)
CELL_SHARE = "cell/share_of_fastest"
ALONE = "alone"  # the word of a cell that nothing compares with
DIGEST_LENGTH = 12  # MLflow shows all of it beside a name, and allows 36 characters
MAX_POINTS = 240  # of one series: a chart shows no more; the record keeps all
# Name -> the charts and columns of a saved view, as MLflow 3.17 keeps them; what both have is in `both`.
VIEWS = Path(__file__).parent / "views.json"
VIEW_KEY = "accelbench"  # of the view of cells, with which the UI opens
VIEW_TAG = "mlflow.sharedViewState."
SPEED = "speed/samples_per_s"


class Point(NamedTuple):
    """One value of a metric; `step` counts within its series."""

    key: str
    value: float
    timestamp_ms: int
    step: int


class Run(NamedTuple):
    """The run of one record. Times are milliseconds since 1970, UTC."""

    start_ms: int
    end_ms: int
    status: str  # `FINISHED`, `FAILED` or `KILLED`
    params: dict[str, str]
    points: list[Point]  # the known values of all metrics
    tags: dict[str, str]  # the description, in markdown, is one of them


def labels_of_cells(cells: Iterable[MeasuredCell]) -> dict[str, str]:
    """The cells' labels, by their `measured_key`, with the settings in which cells of one label differ."""
    of_none = {each.measured_key: dataclasses.replace(each.cell, repeat=0, seed=0) for each in cells}
    labels = plan_file.labels(of_none.values())
    return {key: labels[cell.id] for key, cell in of_none.items()}


def start_ms(record: Record) -> int:
    """When the record's process began, in milliseconds since 1970, UTC."""
    return round(datetime.fromisoformat(record.started_at).timestamp() * 1000)


def end_ms(record: Record) -> int:
    """When it ended."""
    return start_ms(record) + round(record.wall_s * 1000)


def ended_as(record: Record) -> str:
    """MLflow's word for how it ended. A disturbed process finished: its description says what became of its speed."""
    return {Status.ok: "FINISHED", Status.killed: "KILLED"}.get(record.status, "FAILED")


def translate(record: Record) -> Run:
    """The run of `record`.

    An engine's measurements become metrics only if the cell is `ok` and was not disturbed, so that no chart shows wrong
    numbers. Wall time, peak memory and the system series are delivered for every cell: they help to explain failures.
    """
    row = summarise(record)
    ended_ms = end_ms(record)
    is_ok = record.status == Status.ok and not row["disturbed"]
    known = {key: row[column] for key, column in ((MEASURED if is_ok else {}) | OUTCOME | SETTINGS).items()}
    points = [Point(key, float(value), ended_ms, 0) for key, value in known.items() if value is not None]
    if record.measurement is not None and is_ok:  # the times of blocks and epochs are unknown
        blocks, epochs = record.measurement.blocks, record.measurement.epochs
        rates = [block.num_samples / block.seconds for block in blocks]
        points += _series("block/samples_per_s", rates, [ended_ms] * len(blocks))
        for key, value_of in EPOCHS.items():
            points += _series(key, list(map(value_of, epochs)), [ended_ms] * len(epochs), first_step=1)
        points += _qualities(record, record.measurement.target) if record.measurement.target else ()
    if record.system is not None:
        moments = [start_ms(record) + round(1000 * t_s) for t_s in record.system.t_s]
        for key, values in record.system.values.items():
            points += _series(f"system/{key}", values, moments)
    tags = _tags(record, row) | {NOTE: _note(record, row, _outcome(record, row))}
    return Run(start_ms(record), ended_ms, ended_as(record), _params(record, row), points, tags)


class Standing(NamedTuple):
    """How a cell that ran compares with the fastest one that did the same thing in the same place.

    What is compared is the cell, not its processes, so that runs of several models compare in one chart.
    """

    cell: MeasuredCell
    share: float | None = None  # its published speed over that of the fastest cell, at most 1; None if nothing compares
    fastest: MeasuredCell | None = None
    word: str = ALONE  # `fastest`, how sure it is that it is slower, or its outcome if it has no speed
    verdict: str = ""  # `fastest`, or such as `1.31 times as slow, likely`
    served: str = ""  # of a probe: how many requests per second its setting serves; of a training: the answer


def standings(cells: Sequence[MeasuredCell]) -> list[Standing]:
    """One for each cell that ran."""
    by_key = {each.measured_key: _standing(group, each) for group in groups(cells) for each in group.cells}
    ran = {each.measured_key: each for each in cells if each.record and each.record.status != Status.skipped}
    told = {probe.cell.measured_key: each.sentence for each in capacities(cells) for probe in each.probes}
    told |= {setting.cell.measured_key: each.sentence for each in target_answers(cells) for setting in each.settings}
    return [by_key.get(key) or Standing(each, word=each.outcome, served=told.get(key, "")) for key, each in ran.items()]


def _standing(group: Group, cell: MeasuredCell) -> Standing:
    if len(group.cells) == 1:
        return Standing(cell)
    if cell is group.fastest:
        return Standing(cell, 1.0, cell, FASTEST, FASTEST)
    gap = group.gap_to(cell)
    return Standing(cell, min(1.0, 1 / gap.ratio), group.fastest, gap.word, verdict_text(group, cell))


def cell_fields(standing: Standing, experiment_id: str) -> tuple[dict[str, float], dict[str, str], dict[str, str]]:
    """The metrics, parameters and tags of the run of a cell."""
    cell = standing.cell
    assert cell.record
    known = {f"cell/{name}": value for name in CELL_COLUMNS if (value := cell.number(name)) is not None}
    known |= {} if standing.share is None else {CELL_SHARE: standing.share}
    metrics = known if cell.is_ok else {}
    metrics |= {NUM_PROCESSES: float(cell.num_processes)} if cell.speed else {}
    params = {key: text for key, text in _params(cell.record, cell.row).items() if key not in PROCESS_SETTINGS}
    width = relative_half_width(cell.row)
    percent = None if width is None else 100 * width
    # MLflow's table shows some 13 characters of a tag.
    rounded = "" if percent is None else f" ±{significant(percent, 1 if percent < 10 else 2)} %"
    tags = {
        KIND: AGGREGATE,
        CELL_KEY: cell.measured_key,
        HISTORY: cell.history_key,
        "mlflow.source.name": "accelbench",
        "suite": cell.cell.suite,
        "status": cell.outcome,
        "speed": f"{significant(cell.speed)}{rounded}",  # in the order in which MLflow's table shows them
        "word": standing.word,
        "share": significant(standing.share),
        NOTE: _note(cell.record, cell.row, _about(standing, percent, experiment_id)),
    }
    return metrics, params, {key: clean(text)[:MAX_TAG] for key, text in tags.items()}


def _about(standing: Standing, percent: float | None, experiment_id: str) -> str:
    cell, fastest = standing.cell, standing.fastest
    link = f"#/experiments/{quote(experiment_id, safe='')}/runs?" + urlencode(
        {"workflowType": "machine_learning", "searchFilter": f"tags.cell = '{cell.measured_key}'"}
    )
    processes = f"[its processes]({link})"  # of all sweeps: how many these are changes
    if not cell.speed:
        text = served.served_text(cell.row) if cell.is_ok else cell.reason
        outcome = f"**{cell.outcome}**" + (f": {text}" if text else "")
        return " · ".join(filter(None, [outcome, standing.served, processes]))
    width = "" if percent is None else f" ±{significant(percent, 2)} %"
    words = [f"**{speed_text(cell.cell, cell.speed)}**{width} on {cell.row['device_name']}"]
    if fastest is cell:
        words.append(f"**{FASTEST}** of what compares with it")
    elif fastest is not None:
        words.append(f"{standing.verdict}: the fastest is {fastest.label}")
    return " · ".join([*words, processes])


def data_name(data: Data) -> str:
    """The data set's name; a stand-in is marked as one."""
    return f"{data.name} (stand-in)" if data.stand_in else data.name


def _params(record: Record, row: Row) -> dict[str, str]:
    """Every setting of the identity, so that no two cells have the same ones: by its column, or by its dotted path.

    By its path, too, if the column does not hold all of it, such as the name of a file without its folder. A setting
    that the cell does not use has no column: it is named only if it isn't the default.
    """
    threads = record.measurement.threads if record.measurement else record.cell.threads
    params = {key: _cut(str(row[key])) for key in PARAMS if row[key] is not None}
    settings: Any = record.cell.settings()
    for each in declared(Cell):
        value = reduce(lambda group, name: (group or {}).get(name), each.path.split("."), settings)
        column = each.column if each.said.column else each.path.removesuffix(".name")  # `model` is `model.name`
        held = params.get(column) or (_text(each.field.default) if each.said.column else "")
        if value is not None and (text := _text(value)) != held:
            params[each.path] = text
    params["data"] = clean(data_name(record.data) if record.data and not record.cell.model.batch else str(row["data"]))
    return params | ({} if threads is None else {"threads": str(threads)})


def _text(value: object) -> str:
    """A setting's value, a shape as `3x224x224`, nothing as an empty text; of a long one its begin and digest."""
    if value == {} or (isinstance(value, list | tuple) and all(isinstance(each, int) for each in value)):
        return "x".join(map(str, value))
    text = clean(canonical_json(value) if isinstance(value, list | tuple | dict) else str(value))
    return _cut(text)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_PARAM else f"{text[:MAX_BEGIN]}... ({digest(text)[:DIGEST_LENGTH]})"


def _series(
    key: str, values: Sequence[float | None], timestamps_ms: Sequence[int], first_step: int = 0
) -> Iterator[Point]:
    """The known values among every k-th value, with the smallest k that leaves at most `MAX_POINTS`."""
    for step in range(0, len(values), math.ceil(len(values) / MAX_POINTS) or 1):
        value = values[step]
        if value is not None:
            yield Point(key, value, timestamps_ms[step], first_step + step)


def _qualities(record: Record, seen: TargetTraining) -> Iterator[Point]:
    """What the evaluations found, over steps."""
    key = "target/" + re.sub(r"[^\w\-. /]", "_", record.cell.target.metric)
    for each in seen.evaluations[:: math.ceil(len(seen.evaluations) / MAX_POINTS)]:
        ms = round(1000 * each.ended_s)
        if each.value is not None:
            yield Point(key, each.value, start_ms(record) + ms, each.num_steps)


def _tags(record: Record, row: Row) -> dict[str, str]:
    git = record.environment.get("git") or {}
    tags = {
        "record": record.name,
        "cell": Process.of(record).measured_key,
        "started_at": record.started_at,
        "sweep_id": record.sweep_id,
        "suite": record.cell.suite,
        "status": record.status.value,
        "reason": record.reason,
        "data.source": row["data_source"],
        "data.stand_in": record.data.stand_in if record.data else None,
        **{column: row[column] for column in TAGS},
        "requests.verdict": row["verdict"],
        "mlflow.source.name": "accelbench",
        "mlflow.source.type": "LOCAL",
        "mlflow.source.git.commit": git.get("revision"),
        "mlflow.source.git.branch": git.get("branch"),
        "mlflow.source.git.dirty": git.get("dirty"),
    }
    words = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in tags.items()}
    return {key: clean(word)[:MAX_TAG] for key, word in words.items() if tags[key] is not None}


def _note(record: Record, row: Row, headline: str) -> str:
    # MLflow folds what is below some four lines.
    parts = [headline]
    if record.data is not None and record.data.stand_in:
        parts = [f"**Not {record.data.name}** (a stand-in) · {headline}", f"- data: {record.data.source}"]
    parts += [f"- {kind.name}: {text}" for kind in Kind for text in remarks_in(row, kind)]
    if record.error:
        parts.append(f"```\n{record.error[-4000:]}\n```")
    return clean("\n\n".join(parts))[:MAX_TAG]


def _outcome(record: Record, row: Row) -> str:
    outcome, reason = (DISTURBED, row["disturbed"]) if row["disturbed"] else (record.status, record.reason)
    verdict = [f"**{outcome}**" + (f": {reason}" if reason else "")]
    rate, low, high = (number_of(row, f"samples_per_s{end}") for end in ("", "_low", "_high"))
    if outcome == Status.ok and rate is not None:
        interval = f" ({speed_text(record.cell, low, high, digits=4)} within this process)" if low is not None else ""
        verdict.append(f"{speed_text(record.cell, rate, digits=4)}{interval} on {row['device_name']}")
    elif outcome == Status.ok and (text := served.served_text(row)):
        verdict.append(f"{text} on {row['device_name']}")
    return " · ".join(verdict)


def view_tags(now_ms: int, present: Mapping[str, str]) -> dict[str, str]:
    """The tags to set for the saved views, on an experiment with the tags `present`; empty if they are up to date."""
    views = json.loads(VIEWS.read_text())
    both = views.pop("both")
    found = {}
    for name, own in views.items():
        text = json.dumps(both | own, separators=(",", ":"))
        packed = "deflate;" + base64.b64encode(zlib.compress(text.encode())).decode()
        saved = json.loads(present.get(VIEW_TAG + name, "{}"))
        if saved.get("state") != packed:
            view = {"name": name, "createdAt": saved.get("createdAt", now_ms), "updatedAt": now_ms, "state": packed}
            found[VIEW_TAG + name] = json.dumps(view)
    # Without a kind, the UI guesses one, and asks.
    return found and {**found, "mlflow.experimentKind": "custom_model_development"}


def view_url(base: str, experiment_id: str) -> str:
    """The page of the experiment's saved view on the server at `base`."""
    query = f"workflowType=machine_learning&viewStateShareKey={VIEW_KEY}&compareRunsMode=TABLE"
    return f"{base.rstrip('/')}/#/experiments/{quote(experiment_id, safe='')}/runs?{query}"
