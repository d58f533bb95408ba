"""MLflow sinks and sync on real stores, of which most are copies of one."""

import dataclasses
import re
import shutil
import socket
import sqlite3
import subprocess
from contextlib import closing

import pytest

from accelbench.answers.process import Process
from accelbench.cli import main
from accelbench.errors import UserError
from accelbench.schema import record as records
from accelbench.schema import serialize
from accelbench.schema.vocab import Precision, Protocol, Status
from accelbench.sinks import location
from accelbench.sinks import mlflow_fields as view
from accelbench.sinks.delivery import Delivery, sync
from accelbench.sinks.mlflow_fields import CELL_KEY
from accelbench.sinks.ui import serve
from tests.sinks.samples import ENVIRONMENT, STAND_IN, cell, record, system_series
from tests.sinks.stores import SCRIPT, SUITE, client_of, closed_port, deliver, files_of, runs_of, split, started

CREATE = SCRIPT.format(module="mlflow", what="Store", call="Store(Path(sys.argv[1])).delivered('racing')")


def execute(root, statement):
    with closing(sqlite3.connect(root / "mlflow.db")) as connection, connection:
        return connection.execute(statement).fetchall()


@pytest.mark.slow
def test_two_creators_at_once_leave_one_whole_store(tmp_path):
    creators = [started(CREATE, tmp_path, cwd=tmp_path, stderr=subprocess.PIPE) for _ in range(2)]
    assert [creator.communicate()[1] for creator in creators] == [b"", b""]
    assert [creator.returncode for creator in creators] == [0, 0]
    assert execute(tmp_path, "PRAGMA integrity_check") == [("ok",)]
    assert execute(tmp_path, "PRAGMA journal_mode") == [("wal",)]
    assert execute(tmp_path, "SELECT count(*) FROM alembic_version") == [(1,)]
    names = execute(tmp_path, "SELECT name FROM experiments WHERE name LIKE 'accelbench/%'")
    assert names == [("accelbench/racing",)]


def test_a_run_holds_all_of_its_record(root):
    of = record(data=STAND_IN)
    assert deliver(root, of).problem is None
    (run,) = runs_of(root)
    assert run.info.run_name == "cnn-cpu-fp32-b128-train"
    assert (run.info.status, run.info.end_time - run.info.start_time) == ("FINISHED", 2250)
    assert run.data.params["batch_size"] == "128"
    assert run.data.metrics["setting/batch_size"] == 128
    assert run.data.tags["sweep_id"] == "sweep-1"
    assert run.data.tags["mlflow.source.git.commit"] == "8d93729"
    (dataset,) = run.inputs.dataset_inputs
    assert (dataset.dataset.name, dataset.dataset.digest) == ("mnist (stand-in)", STAND_IN.digest[:12])
    assert records.read(files_of(root, run) / "record.json") == of
    history = client_of(root).get_metric_history(run.info.run_id, "system/host_memory_mb")
    assert [(each.step, each.timestamp - run.info.start_time) for each in history] == [(i, 100 * i) for i in range(10)]


def test_runs_of_one_model_are_compared_with_the_fastest_by_sync_too(root):
    measured = [record(cell(precision=Precision(word)), number=number) for number, word in enumerate(("fp32", "bf16"))]
    other = record(cell("mlp"), number=2)
    for one in (*measured, other):
        records.write(one, root / "runs" / "mine")
    deliver(root, *measured, other)
    assert split(root)[1] == []  # as of a sweep that was interrupted
    assert sync(root, [root / "runs"]).num_delivered == 0
    runs = {run.info.run_name: run for run in split(root)[1]}
    slow, fast, alone = (runs[one.label] for one in (*measured, other))
    rates = [run.data.metrics["cell/samples_per_s"] for run in (slow, fast)]
    assert slow.data.metrics[view.CELL_SHARE] == pytest.approx(rates[0] / rates[1])
    assert fast.data.metrics[view.CELL_SHARE] == 1
    assert view.CELL_SHARE not in alone.data.metrics
    assert slow.data.tags["word"] in ("likely", "can't tell")
    assert fast.data.tags["word"] == "fastest"


@pytest.mark.parametrize("is_database", [False, True])
def test_a_spoilt_store_costs_no_record_and_is_one_line(is_database, root, capfd):
    if is_database:
        execute(root, "DROP TABLE latest_metrics")
    else:
        (root / "mlflow.db").write_bytes(b"something else" * 1000)
    records.write(record(), root / "results")
    found = deliver(root, record(), record(number=1))
    assert "\n" not in found.problem
    assert re.search("not a database|malformed|latest_metrics", found.problem)
    with pytest.raises(UserError, match=r"not a database|malformed|latest_metrics"):
        sync(root, [root / "results"])
    assert capfd.readouterr() == ("", "")


def test_a_store_of_another_release_is_neither_used_nor_migrated(root):
    # MLflow would migrate a store that lacks one of its tables.
    for statement in ("UPDATE alembic_version SET version_num = 'cc1f77228345'", "DROP TABLE webhooks"):
        execute(root, statement)
    before = [execute(root, f"SELECT * FROM {table}") for table in ("alembic_version", "sqlite_master")]
    found = deliver(root, record())
    assert "is left as it is: name another" in found.problem
    assert [execute(root, f"SELECT * FROM {table}") for table in ("alembic_version", "sqlite_master")] == before


@pytest.mark.parametrize("earlier", [record().started_at, "2026-11-20T17:00:00+00:00"])
def test_a_half_delivered_run_is_made_anew_also_if_the_cell_was_measured_again(root, earlier):
    deliver(root, dataclasses.replace(record(), started_at=earlier))
    execute(root, "UPDATE runs SET status = 'RUNNING', end_time = NULL")
    deliver(root, record())
    (run,) = runs_of(root)
    assert (run.info.status, run.data.tags["started_at"]) == ("FINISHED", record().started_at)


def test_a_dead_server_costs_no_record(root, monkeypatch):
    kept = [record(number=number) for number in range(6)]
    for one in kept:
        records.write(one, root / "results" / SUITE)
    deliver(root, *kept[:3])
    port = closed_port()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://someone:s3cret@127.0.0.1:{port}")
    found = deliver(root, *kept)
    with pytest.raises(UserError, match="MLFLOW_TRACKING_URI") as raised:
        sync(root, [root / "results"])
    with pytest.raises(UserError, match="MLFLOW_TRACKING_URI") as raised_by_ui:
        serve(root, open_browser=False)
    for told in (found.problem, str(raised.value), str(raised_by_ui.value)):
        assert f"http://someone:***@127.0.0.1:{port}" in told
        assert "s3cret" not in told

    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    result = sync(root, [root / "results", root / "runs"])
    assert (result.num_delivered, result.num_already_there) == (3, 3)
    assert len(runs_of(root)) == 6
    result = sync(root, [root / "results"])
    assert (result.num_delivered, result.num_already_there) == (0, 6)


@pytest.mark.fault
def test_a_server_that_does_not_answer_costs_one_line_and_no_record(root, monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    one = record()
    records.write(one, root / "results")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{silent.getsockname()[1]}")
        found = deliver(root, one)
        assert len(found.problem.splitlines()) == 1
        with pytest.raises(UserError, match="does not answer"):
            sync(root, [root / "results"])


def test_sync_reads_records_alone_names_unreadable_ones_and_fills_a_new_store(
    root, empty_store, tmp_path, monkeypatch, capsys
):
    folder = root / "runs" / "2026-11-20"
    records.write(record(status=Status.skipped), folder)
    here = {**ENVIRONMENT, "tracking": "none"}
    records.write(record(cell(suite="kept_here"), number=2, environment=here), folder)
    records.write(record(cell(protocol=Protocol.fit, suite="other"), number=1), folder)
    serialize.write_json(folder / "plan.json", {"cells": []})
    serialize.write_json(folder / "000000000000-01d01d01.json", {"schema_version": 0})
    result = sync(root, [root / "runs"])
    assert (result.num_delivered, result.num_already_there, result.num_left_out) == (1, 0, 1)
    (unreadable,) = result.unreadable
    assert "01d01d01.json" in unreadable
    assert "schema 0" in unreadable
    (run,) = runs_of(root, "other")
    assert run.data.tags["sweep_id"] == "sweep-1"

    new = shutil.copytree(empty_store, tmp_path / "new")
    (root / "runs").rename(new / "runs")
    monkeypatch.chdir(new)
    assert main(["sync", "--all"]) == 0
    unreadable = unreadable.removeprefix(f"{root}/")
    told = f"MLflow: 2 runs delivered, 0 already there.\nNot readable: 1\n  {unreadable}\n"
    assert capsys.readouterr().out == told
    assert len(runs_of(new, "other")) == 1


def of_one_cell(num, first=0):
    """Processes of one cell in fp32."""
    return [record(dataclasses.replace(cell(), repeat=first + i), number=first + i) for i in range(num)]


def write(root, made):
    for one in made:
        records.write(one, root / "runs" / "mine")


def test_the_speed_of_a_cell_is_a_run_that_is_updated_and_no_measurement(root):
    failed = record(cell("lstm"), Status.failed, number=51)
    write(root, [*of_one_cell(3), record(cell(precision=Precision.bf16), number=50), failed])
    assert sync(root, [root / "runs"]).num_delivered == 5
    measured, cells = split(root)
    assert (len(measured), len(cells)) == (5, 3)
    (lost,) = (run for run in cells if run.data.params["model"] == "lstm")
    assert (lost.data.metrics, lost.data.tags["word"], lost.info.status) == ({}, "failed", "FAILED")
    fastest, mean = sorted((run for run in cells if run is not lost), key=lambda run: run.data.params["precision"])
    assert (fastest.data.tags["word"], mean.data.tags["word"]) in {("fastest", "likely"), ("fastest", "can't tell")}
    assert re.fullmatch(r"1,\d\d0 ±\d+ %", mean.data.tags["speed"])
    assert mean.data.tags["share"] == f"{mean.data.metrics['cell/share_of_fastest']:.3f}"
    assert f"tags.cell+%3D+%27{mean.data.tags[CELL_KEY]}%27" in mean.data.tags[view.NOTE]
    rates = [run.data.metrics[view.SPEED] for run in measured if run.data.tags["cell"] == mean.data.tags[CELL_KEY]]
    metrics = mean.data.metrics
    assert metrics["cell/num_processes"] == 3
    assert metrics["cell/samples_per_s"] == pytest.approx(sorted(rates)[1])
    assert metrics["cell/samples_per_s_low"] < metrics["cell/samples_per_s"] < metrics["cell/samples_per_s_high"]
    assert view.SPEED not in metrics
    assert mean.data.params["model"] == "cnn"

    client_of(root).set_tag(mean.info.run_id, "word", "of an earlier release")
    client_of(root).set_tag(mean.info.run_id, "mine", "a note")
    with Delivery("mlflow", root) as delivery:
        delivery.open()
        delivery.relate(map(Process.of, records.read_all(sorted((root / "runs").rglob("*.json")))))
    (kept,) = (run for run in split(root)[1] if run.info.run_id == mean.info.run_id)  # the user's own tag too
    assert kept.data.tags == {**mean.data.tags, "mine": "a note"}

    write(root, of_one_cell(2, first=3))
    again = sync(root, [root / "runs"])
    assert (again.num_delivered, again.num_already_there) == (2, 5)
    measured, cells = split(root)
    assert (len(measured), max(run.data.metrics.get("cell/num_processes", 0) for run in cells)) == (7, 5)

    with Delivery("mlflow", root) as delivery:  # a sweep that knows fewer processes takes none back
        for one in of_one_cell(2):
            delivery.add(one)
        delivery.finish()
        delivery.relate(map(Process.of, of_one_cell(2)))
    assert sync(root, [root / "runs"]).num_delivered == 0
    measured, cells = split(root)
    assert (len(measured), max(run.data.metrics.get("cell/num_processes", 0) for run in cells)) == (7, 5)


def test_the_run_of_older_code_stays_and_is_called_older(root):
    before, after = of_one_cell(2), of_one_cell(2, first=2)
    environment = {**after[0].environment, "files": {"model.target": "2"}}
    edited = [dataclasses.replace(each, environment=environment) for each in after]
    for made in (before, edited):
        write(root, made)
        with Delivery("mlflow", root) as delivery:
            for one in made:
                delivery.add(one)
            delivery.finish()
            delivery.relate(map(Process.of, made))
    measured, cells = split(root)
    assert len(measured) == 4
    old, new = sorted(cells, key=lambda run: run.info.start_time)
    assert [run.data.metrics["cell/num_processes"] for run in (old, new)] == [2, 2]
    assert (old.data.tags["word"], new.data.tags["word"]) == ("older", "alone")
    assert (old.info.run_name, new.info.run_name) == ("cnn-cpu-fp32-b128-train (older)", "cnn-cpu-fp32-b128-train")
    older = {run.data.tags["record"] for run in measured if run.data.tags.get("word") == "older"}
    assert older == {each.name for each in before}
    before = {run.info.run_id: run.data.tags for run in cells}
    assert sync(root, [root / "runs"]).num_delivered == 0
    assert {run.info.run_id: run.data.tags for run in split(root)[1]} == before


def test_the_epochs_of_a_run_are_curves(root):
    write(root, [record(cell(protocol=Protocol.fit))])
    sync(root, [root / "runs"])
    measured, _ = split(root)
    for name, last in {"accuracy": 0.94, "loss": 0.18, "test_accuracy": 0.98, "test_loss": 0.08}.items():
        history = client_of(root).get_metric_history(measured[0].info.run_id, f"epoch/{name}")
        assert [point.step for point in history] == [1, 2, 3, 4, 5]
        assert history[-1].value == pytest.approx(last)


def test_a_cell_whose_run_is_gone_gets_it_again_and_a_disturbed_one_has_finished(root):
    busy = dataclasses.replace(system_series(), values={"other_cpu_utilization_percent": [180.0] * 10}, num_cores=2)
    disturbed = record(cell("mlp"), number=2, system=busy)
    write(root, [record(), record(cell(precision=Precision.bf16), number=1), disturbed])
    sync(root, [root / "runs"])
    measured, cells = split(root)
    assert "disturbed" in {run.data.tags["status"] for run in cells}
    assert {run.info.status for run in [*measured, *cells]} == {"FINISHED"}
    for run in cells:
        client_of(root).delete_run(run.info.run_id)
    assert sync(root, [root / "runs"]).num_delivered == 0
    assert {run.info.run_name for run in split(root)[1]} == {run.info.run_name for run in cells}


@pytest.mark.parametrize("is_server", [True, False])
def test_a_server_can_not_have_files_written_on_this_machine(root, tmp_path, monkeypatch, is_server):
    shutil.copy(root / "mlflow.db", tmp_path / "theirs.db")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/theirs.db")
    monkeypatch.chdir(tmp_path)  # below which MLflow's client keeps files
    if is_server:
        monkeypatch.setattr(location, "server_uri", lambda root: "http://theirs")
    deliver(root, record())
    assert bool(list(tmp_path.rglob("record.json"))) != is_server
