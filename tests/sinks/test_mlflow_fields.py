import json
from dataclasses import replace

import pytest

from accelbench.answers.cells import Process, cells_of
from accelbench.judging.row import summarise
from accelbench.schema.cell import UNEXPECTED, Engine, KerasSettings, Options, Protocol, Status, Window
from accelbench.schema.measurement import SystemSeries
from accelbench.sinks import mlflow_fields
from accelbench.sinks.mlflow_fields import NOTE, of_cells, of_process, run_name
from tests.sinks.samples import MAKER, cell, record


def test_metrics_are_the_published_row_with_a_speed_of_three_digits_and_times_the_records_own():
    of = record(cell(batch_size=65_536), number=1)
    row, run = summarise(of), of_process(of)
    assert run.metrics["speed"] == pytest.approx(row["samples_per_s"], rel=0.005)
    assert run.metrics["speed"] == float(f"{run.metrics['speed']:.2e}")
    assert run.metrics["latency_p50_ms"] == float(f"{row['latency_p50_ms']:.4g}")
    assert (run.metrics["batch_size"], run.metrics["peak_host_mb"]) == (65_536, 392)
    assert row["accuracy"] is None
    assert not run.metrics.keys() & {"accuracy", "compile_s", "peak_device_mb", "latency_p99_ms"}
    assert (run.start_ms, run.end_ms) == (1_795_165_201_000, 1_795_165_203_250)


@pytest.mark.parametrize("protocol", [Protocol.window, Protocol.fit])
def test_a_run_has_no_more_figures_settings_and_tags_than_people_look_at(protocol, monkeypatch):
    many = {**dict.fromkeys(mlflow_fields.COLUMNS, 1.0), "num_params": 3}
    monkeypatch.setattr(Process, "own_row", property(lambda self: summarise(self.record) | many))
    window = Window(**{name: value + 1 for name, value in vars(Window()).items()})
    changes = {"threads": 2, "options": Options(compile=True), "seed": 4, "data": replace(cell().data, path="/x")}
    of = record(cell(protocol=protocol, window=window, **changes))
    run, (whole,) = of_process(of), of_cells(cells_of([Process.of(of)]))
    curves = {point.key for point in run.series if not point.key.startswith("system/")}
    assert len(curves) == (4 if protocol == Protocol.fit else 0)
    losses = [point.value for point in run.series if point.key == "epoch/test_loss"]
    assert losses == [pytest.approx(0.4 / epoch) for epoch in range(1, 6) if curves]
    assert len(run.metrics.keys() | whole.metrics.keys()) == 14  # and the share
    assert len(run.params) <= 25
    assert len([tag for tag in run.tags | whole.tags if not tag.startswith("mlflow.")]) == 4


def test_names_fit_the_table_settings_are_those_that_differ_and_a_stand_in_never_passes_for_the_set():
    keras = {"engine": Engine.keras, "keras": KerasSettings()}
    assert run_name(cell(**keras, repeat=3)) == "cnn train keras fp32 b128"
    assert run_name(cell("a-b" * 20)) == "a-ba-ba-…b train fp32 b128"
    run = of_process(record(cell(**keras, threads=3, seed=4), data=MAKER.stand_in))
    assert not run.params.keys() & {"backend", "jit_compile", "steps_per_execution", "keras.tpu", "compile"}
    names = ("model", "engine", "asked_threads", "seed", "data")
    assert [run.params[name] for name in names] == ["cnn", "keras", "3", "4", "mnist (stand-in)"]
    assert "stand-in for mnist" in run.tags[NOTE].splitlines()[0]


@pytest.mark.parametrize("status", sorted(UNEXPECTED))
def test_what_went_wrong_shows_no_speed(status):
    of = record(status=status)
    assert mlflow_fields.about(cells_of([Process.of(of)])).startswith("**Nothing was compared**\n\n    ")
    run = of_process(of)
    assert run.metrics.keys() <= {"peak_host_mb", "batch_size"}
    assert run.status == ("KILLED" if status == Status.killed else "FAILED")
    assert run.tags[NOTE].startswith(f"**{status}: why it is {status}**")
    assert ("RuntimeError: shapes" in run.files["card.html"]) == (status == Status.failed)


@pytest.mark.parametrize(("num_samples", "num_points"), [(240, 240), (241, 121), (36_000, 240)])
def test_long_series_are_thinned_from_the_first_sample_to_the_last(num_samples, num_points):
    times = [0.1 * i for i in range(num_samples)]
    run = of_process(record(system=SystemSeries(t_s=times, values={"host_memory_mb": times})))
    points = [point for point in run.series if point.key == "system/host_memory_mb"]
    assert len(points) == num_points
    assert (points[0].step, points[-1].step) == (0, num_samples - num_samples // num_points)


def test_no_text_of_a_run_holds_an_escape_or_a_tag():
    wicked = "a\x1b[2J\u202e<script>"
    changes = {"reason": wicked, "error": wicked, "environment": {"git": {"revision": wicked}}}
    run = of_process(record(cell(wicked, suite=wicked), Status.failed, **changes))
    texts = [*run.params.values(), *run.tags.values(), run.name, run.files["card.html"]]
    assert not set("\x1b\u202e") & set("".join(texts))
    assert run.params["model"] == r"a\x1b[2J\u202e<script>"
    assert "<script" not in run.files["card.html"]


def test_every_metric_and_parameter_of_the_view_exists():
    tags = mlflow_fields.experiment_tags("sweep-1", "")
    state = json.loads(json.loads(tags[mlflow_fields.VIEW_TAG])["state"])
    assert state["searchFilter"] == mlflow_fields.search("sweep-1")
    known = {"metrics": {"speed", "share"}, "params": set(mlflow_fields.PARAMS), "tags": {mlflow_fields.WORD}}
    for column in state["selectedColumns"]:
        kind, name, _ = column.split("`")
        assert name in known[kind.removesuffix(".")]
    parallel, bars = state["compareRunCharts"]
    assert set(parallel["selectedParams"]) <= known["params"]
    assert {*parallel["selectedMetrics"], bars["metricKey"]} == known["metrics"]
