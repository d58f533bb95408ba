import base64
import dataclasses
import json
import zlib
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Union, get_args, get_origin

import pytest

from accelbench.answers.cells import cells_of
from accelbench.answers.process import Process
from accelbench.judging.row import MEASURED as COLUMNS
from accelbench.judging.row import summarise
from accelbench.schema.cell import Cell, KerasSettings, TrainerSettings
from accelbench.schema.measurement import SystemSeries
from accelbench.schema.setting import declared
from accelbench.schema.vocab import UNEXPECTED, Device, Engine, Pipeline, Protocol, Status
from accelbench.sinks import mlflow_fields
from accelbench.sinks.mlflow_fields import NOTE, cell_fields, standings, translate
from report.conftest import Maker
from report.pictures.samples import served
from tests.sinks.samples import STAND_IN, cell, record

# Parameters, tags and parts of the description.
ELSEWHERE = {"threads", "verdict", "warnings", "tips", "notes", *mlflow_fields.TAGS}
LONG = "a" * 7000
VALUES = {bool: [True, False], int: [0, 1, 2, 32], float: [0.0, 0.5, 1.0], str: ["None", "x", "/a/x", LONG, LONG + "b"]}
VALUES |= {NoneType: [None], dict: [{}, {"a": 1}, {"a": "1"}, {"b": 1}, {"a": LONG}, {"a": LONG + "b"}]}


def values_of(run):
    return {point.key: point.value for point in run.points}


def test_every_measured_column_reaches_the_tracker():
    metrics = set((mlflow_fields.MEASURED | mlflow_fields.OUTCOME).values())
    assert set(COLUMNS) == (metrics | ELSEWHERE) - {"wall_s"}


def test_metrics_are_the_published_row_and_times_the_records_own():
    of = record(number=1)
    row, run = summarise(of), translate(of)
    values = values_of(run)
    assert values["speed/samples_per_s"] == row["samples_per_s"]
    assert values["latency/p50_ms"] == row["latency_p50_ms"]
    assert values["setting/batch_size"] == 128
    assert values["memory/peak_host_mb"] == 392
    assert row["accuracy"] is None
    assert not values.keys() & {"quality/accuracy", "time/compile_s", "memory/peak_device_mb", "latency/p99_ms"}
    assert (run.start_ms, run.end_ms) == (1_795_165_203_000, 1_795_165_205_250)


def values_of_type(kind):
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return [value for part in parts for value in values_of_type(part)]
    if origin is tuple:
        return [(), *[(value,) for value in values_of_type(parts[0])], tuple(values_of_type(parts[0])[1:3])]
    if origin is Annotated:
        return values_of_type(parts[0])
    return list(kind) if isinstance(kind, type) and issubclass(kind, Enum) else VALUES[origin or kind]


def changed(whole, path, value):
    """The same with another value at a dotted path."""
    name, _, rest = path.partition(".")
    return dataclasses.replace(whole, **{name: changed(getattr(whole, name), rest, value) if rest else value})


OF_ENGINES = ("keras", "trainer")


def test_cells_that_differ_in_any_setting_have_different_parameters():
    jpeg = dataclasses.replace(cell().data, pipeline=Pipeline.jpeg)
    bases = [cell(), cell(protocol=Protocol.steps, devices=2, data=jpeg), cell(device=Device.tpu)]
    bases += [cell(engine=Engine.keras, keras=KerasSettings()), cell(trainer=TrainerSettings(), protocol=Protocol.fit)]
    cells = [dataclasses.replace(cell(), engine=engine) for engine in Engine]
    cells += [dataclasses.replace(cell(), device=device) for device in Device]
    for base in bases:
        own = [name for name in OF_ENGINES if getattr(base, name)]
        for each in declared(Cell):
            part = each.path.partition(".")[0]
            # Of a cell with settings of its engine these alone are changed.
            if part in own or not (own or part in OF_ENGINES):
                cells += [changed(base, each.path, value) for value in values_of_type(each.kind)]
    by_id = {each.id: translate(record(each, Status.skipped, system=None)).params for each in [*bases, *cells]}
    assert len(by_id) > 500
    assert len({json.dumps(params, sort_keys=True) for params in by_id.values()}) == len(by_id)
    # MLflow takes no more in a call, and would cut a longer text.
    assert max(map(len, by_id.values())) <= 100
    assert max(len(text) for params in by_id.values() for text in params.values()) <= 500


@pytest.mark.parametrize("status", sorted(UNEXPECTED))
def test_what_went_wrong_shows_no_speed(status):
    run = translate(record(status=status))
    sections = {point.key.partition("/")[0] for point in run.points}
    assert sections == {"setting", "time", "memory", "system"}
    assert run.status == ("KILLED" if status == Status.killed else "FAILED")
    assert run.tags["reason"] in run.tags[NOTE]


@pytest.mark.parametrize(("num_samples", "num_points"), [(240, 240), (241, 121), (36_000, 240)])
def test_long_series_are_thinned_and_their_peak_is_not(num_samples, num_points):
    series = SystemSeries(
        t_s=[0.1 * i for i in range(num_samples)],
        values={"host_memory_mb": [float(i) for i in range(num_samples)]},
        peak_host_bytes=77_000_000_000,
    )
    run = translate(record(system=series))
    assert len([point for point in run.points if point.key == "system/host_memory_mb"]) == num_points
    assert values_of(run)["memory/peak_host_mb"] == 77_000.0


def test_a_stand_in_never_passes_for_the_set():
    run = translate(record(data=STAND_IN))
    assert run.params["data"] == "mnist (stand-in)"
    assert run.tags["data.stand_in"] == "true"
    assert run.tags[NOTE].startswith("**Not mnist**")


def test_no_text_of_a_run_holds_an_escape():
    wicked = "a\x1b[2J\u202e"
    of = cell(wicked, suite=wicked)
    run = translate(record(of, Status.failed, reason=wicked, error=wicked, environment={"git": {"branch": wicked}}))
    texts = [*run.params.values(), *run.tags.values()]
    assert not set("\x1b\u202e") & set("".join(texts))
    assert run.params["model"] == r"a\x1b[2J\u202e"


@pytest.mark.parametrize("name", ["accelbench", "accelbench-processes"])
def test_every_metric_of_a_view_exists_and_it_is_left_alone_once_it_is_there(name):
    tags = mlflow_fields.view_tags(1, {})
    kind, _, data = json.loads(tags[mlflow_fields.VIEW_TAG + name])["state"].partition(";")
    assert kind == "deflate"
    state = json.loads(zlib.decompress(base64.b64decode(data)))
    keys = {chart["metricKey"] for chart in state["compareRunCharts"] if chart["type"] == "BAR"}
    for chart in state["compareRunCharts"]:
        if chart["type"] == "SCATTER":
            keys |= {chart["xaxis"]["key"], chart["yaxis"]["key"]}
        if chart["type"] == "PARALLEL":
            keys |= set(chart["selectedMetrics"])
            assert set(chart["selectedParams"]) <= set(mlflow_fields.PARAMS)
        if chart["type"] == "LINE":
            assert set(chart["selectedMetricKeys"]) <= set(mlflow_fields.EPOCHS)
    keys |= {column.split("`")[1] for column in state["selectedColumns"] if column.startswith("metrics.")}
    of_cells = {f"cell/{column}" for column in mlflow_fields.CELL_COLUMNS} | {mlflow_fields.CELL_SHARE}
    of_processes = {*(mlflow_fields.SETTINGS | mlflow_fields.OUTCOME | mlflow_fields.MEASURED)}
    assert keys <= (of_cells if name == mlflow_fields.VIEW_KEY else of_processes)
    assert mlflow_fields.view_tags(2, tags) == {}


def test_ids_that_a_server_made_up_stay_in_their_place():
    assert "/#/experiments/%1B%5D0%3B/runs?" in mlflow_fields.view_url("http://x", "\x1b]0;")


def test_the_run_of_a_probe_says_what_its_setting_serves():
    found = standings(cells_of(map(Process.of, served(Maker()))))
    notes = [cell_fields(each, "1")[2][NOTE] for each in found]
    assert [note.count("200 to 240 requests/s with p99 at most 50 ms (") for note in notes] == [1] * 4 + [0] * 2
