import dataclasses

import pytest

from accelbench.judging.row import MEASURED as COLUMNS
from accelbench.judging.row import summarise
from accelbench.schema.conditions import SystemSeries
from accelbench.schema.measurement import Block
from accelbench.schema.vocab import UNEXPECTED, Mode, Protocol, Status
from accelbench.sinks import mlflow_fields
from accelbench.sinks.mlflow_fields import translate
from tests.sinks.samples import STAND_IN, cell, measurement, record, system_series


def test_every_measured_column_reaches_the_tracker():
    metrics = set((mlflow_fields.MEASURED | mlflow_fields.OUTCOME).values())
    elsewhere = {
        "threads",
        "time_provenance",
        "device_name",
        "disturbed",
        "warnings",
    }  # parameter, tags and description
    elsewhere |= {"bound", "stopped", "settled", "energy_provenance", "busiest_operators", "cudnn_benchmark"}  # tags
    elsewhere |= {"allocator_library", "disturbed"}  # tags too
    assert set(COLUMNS) == (metrics | elsewhere) - {"wall_s"}


def test_metrics_are_the_published_row():
    of = record()
    row, points = summarise(of), {point.key: point.value for point in translate(of).points}
    assert points["speed/samples_per_s"] == row["samples_per_s"]
    assert points["latency/p50_ms"] == row["latency_p50_ms"]
    assert points["setting/batch_size"] == 128
    assert points["memory/peak_host_mb"] == 392


def test_an_unknown_value_is_no_metric():
    of = record()
    assert summarise(of)["accuracy"] is None
    keys = {point.key for point in translate(of).points}
    assert not keys & {"quality/accuracy", "time/compile_s", "memory/peak_device_mb", "latency/p99_ms"}


@pytest.mark.parametrize("status", sorted(UNEXPECTED))
def test_what_went_wrong_shows_no_speed(status):
    run = translate(record(status=status))
    sections = {point.key.partition("/")[0] for point in run.points}
    assert sections == {"setting", "time", "memory", "system"}
    assert run.status == ("KILLED" if status == Status.killed else "FAILED")
    assert run.tags["reason"] in run.note


def test_epochs_and_blocks_are_series():
    fit = translate(record(cell(protocol=Protocol.fit)))
    losses = [point for point in fit.points if point.key == "epoch/loss"]
    assert [point.step for point in losses] == [0, 1, 2, 3, 4]
    assert losses[1].value == 0.45
    window = translate(record())
    assert len([point for point in window.points if point.key == "block/samples_per_s"]) == 12


def test_system_series_bear_the_moments_of_their_samples():
    run = translate(record())
    points = [point for point in run.points if point.key == "system/host_memory_mb"]
    assert [point.timestamp_ms - run.start_ms for point in points] == [100 * i for i in range(10)]
    cpu = [point for point in run.points if point.key == "system/cpu_utilization_percent"]
    assert [point.step for point in cpu] == list(range(1, 10))  # the first sample is unknown, and no 0


@pytest.mark.parametrize(("num_samples", "num_points"), [(240, 240), (241, 121), (36_000, 240)])
def test_long_series_are_thinned_and_their_peak_is_not(num_samples, num_points):
    series = SystemSeries(
        t_s=[0.1 * i for i in range(num_samples)],
        values={"host_memory_mb": [float(i) for i in range(num_samples)]},
        peak_host_bytes=77_000_000_000,
    )
    run = translate(dataclasses.replace(record(), system=series))
    assert len([point for point in run.points if point.key == "system/host_memory_mb"]) == num_points
    assert {"memory/peak_host_mb": 77_000.0}.items() <= {point.key: point.value for point in run.points}.items()


def test_times_are_the_records_own():
    run = translate(record(number=1))
    assert (run.start_ms, run.end_ms) == (1_795_165_203_000, 1_795_165_205_250)


def test_a_stand_in_never_passes_for_the_set():
    run = translate(record(data=STAND_IN))
    assert run.params["data"] == "mnist (stand-in)"
    assert run.tags["data.stand_in"] == "true"
    assert run.note.startswith("**Not mnist**")


def test_where_nothing_is_known_nothing_is_said():
    bare = dataclasses.replace(
        record(status=Status.failed, data=None, with_system=False), environment={}, error=None, reason=None
    )
    run = translate(bare)
    assert not any("git" in key or key.startswith("data.") for key in run.tags)
    assert "threads" not in run.params
    assert run.note == "**failed**"


def test_a_short_window_has_a_rate_without_an_interval():
    of = cell(mode=Mode.infer)
    measured = dataclasses.replace(measurement(of), blocks=[Block(num_steps=1, num_samples=128, seconds=0.1)])
    run = translate(record(of, measured=measured))
    assert "1,280 samples/s on AMD EPYC" in run.note
    assert "interval" not in run.note
    assert system_series().peak_host_bytes == 1e6 * dict(point[:2] for point in run.points)["memory/peak_host_mb"]


def test_no_text_of_a_run_holds_an_escape():
    wicked = "a\x1b[2J\u202e"
    of = record(cell(wicked, suite=wicked), Status.failed)
    of = dataclasses.replace(of, reason=wicked, error=wicked, environment={"git": {"branch": wicked}})
    run = translate(of)
    texts = [run.note, *run.params.values(), *run.tags.values()]
    assert not set("\x1b\u202e") & set("".join(texts))
    assert run.params["model"] == r"a\x1b[2J\u202e"
