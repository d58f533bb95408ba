"""MLflow sinks and sync on real stores, of which most are copies of one."""

import dataclasses
import json
import re
import shutil
import sqlite3
import subprocess
from contextlib import closing

import pytest

from accelbench.answers.cells import Process
from accelbench.cli import main
from accelbench.errors import UserError
from accelbench.report.read import read_all
from accelbench.schema import record as records
from accelbench.schema import serialize
from accelbench.schema.cell import Precision, Protocol, Status
from accelbench.sinks import mlflow
from accelbench.sinks import mlflow_fields as view
from accelbench.sinks.delivery import Delivery, sync
from accelbench.sinks.mlflow_fields import NOTE
from accelbench.sinks.ui import serve
from fakes import write_sweep
from tests.sinks.samples import ENVIRONMENT, STAND_IN, cell, record
from tests.sinks.stores import SUITE, client_of, closed_port, deliver, split, started

CREATE = "mlflow.Store(Path(sys.argv[1])).delivered('racing')"


def synced(root, *made):
    """How many runs `accelbench sync` delivers of the records in runs/, after these were written there."""
    for each in made:
        records.write(each, root / "runs/mine")
    return sync(root, [sweep.processes for sweep in read_all(root / "runs")])


def execute(root, statement):
    with closing(sqlite3.connect(root / "mlflow.db")) as connection, connection:
        return connection.execute(statement).fetchall()


@pytest.mark.slow
def test_two_creators_at_once_leave_one_whole_store(tmp_path):
    creators = [started(CREATE, tmp_path, cwd=tmp_path, stderr=subprocess.PIPE) for _ in range(2)]
    assert [creator.communicate()[1] for creator in creators] == ["", ""]
    assert [creator.returncode for creator in creators] == [0, 0]
    assert execute(tmp_path, "PRAGMA integrity_check") == [("ok",)]
    assert execute(tmp_path, "PRAGMA journal_mode") == [("wal",)]
    assert execute(tmp_path, "SELECT count(*) FROM alembic_version") == [(1,)]
    names = execute(tmp_path, "SELECT name FROM experiments WHERE name LIKE 'accelbench/%'")
    assert names == [("accelbench/racing",)]


def test_a_run_holds_all_of_its_record(root):
    of = record(data=STAND_IN)
    assert deliver(root, of).problem is None
    ((run,), _) = split(root)
    assert run.info.run_name == "cnn train fp32 b128"
    assert (run.info.status, run.info.end_time - run.info.start_time) == ("FINISHED", 2250)
    assert (run.data.params["batch_size"], run.data.metrics["batch_size"]) == ("128", 128)
    assert (run.data.tags["sweep"], run.data.tags["mlflow.source.git.commit"]) == ("sweep-1", "8d93729")
    (dataset,) = run.inputs.dataset_inputs
    assert (dataset.dataset.name, dataset.dataset.digest) == ("mnist (stand-in)", STAND_IN.digest[:12])
    files = root / "mlartifacts" / SUITE / run.info.run_id / "artifacts"
    assert records.read(files / "record.json") == of
    assert "cnn train fp32 b128" in (files / "card.html").read_text()
    history = client_of(root).get_metric_history(run.info.run_id, "system/host_memory_mb")
    assert [(each.step, each.timestamp - run.info.start_time) for each in history] == [(i, 100 * i) for i in range(10)]


PAIR = [record(cell(precision=Precision(word)), number=number) for number, word in enumerate(("fp32", "bf16"))]


def test_cells_of_one_process_are_its_run_and_are_compared_with_the_first_by_sync_too(root):
    made = [*PAIR, record(cell("mlp"), number=2)]
    deliver(root, *made)
    assert split(root)[1] == []  # as of a sweep that was interrupted
    assert synced(root, *made, record(cell("lstm"), Status.skipped, number=3)) == 0
    processes, cells = split(root)
    assert cells == processes
    slow, fast, alone = sorted(cells, key=lambda run: run.info.start_time)
    rates = [run.data.metrics["speed"] for run in (slow, fast)]
    assert slow.data.metrics["share"] == pytest.approx(rates[0] / rates[1], rel=0.01)
    assert (fast.data.metrics["share"], slow.data.tags["word"]) == (1, "reference")
    assert "share" not in alone.data.metrics
    assert fast.data.tags["word"] in ("likely", "can't tell")
    assert {each for each in slow.data.tags if not each.startswith("mlflow.")} == {"record", "cell", "sweep", "word"}
    assert "times as fast as PyTorch fp32 b128" in fast.data.tags[NOTE]
    client = client_of(root)
    answer, bars = client.get_experiment(fast.info.experiment_id).tags[NOTE].split("\n\n", 1)
    assert re.fullmatch(r"\*\*[01] of 1 job run faster than PyTorch fp32 on CPU \(same batch\)\*\*", answer)
    assert all(line.startswith("    ") for line in bars.splitlines() if line)
    assert "1 of 4 cells: 1 skipped" in bars
    client.set_tag(slow.info.run_id, "word", "of an earlier release")
    client.delete_tag(fast.info.run_id, "word")
    assert synced(root) == 0
    again = [run.data.tags | run.data.metrics for run in split(root)[1]]
    assert again == [run.data.tags | run.data.metrics for run in cells]


@pytest.mark.parametrize("is_database", [False, True])
def test_a_spoilt_store_costs_no_record_and_is_one_line(is_database, root, capfd):
    if is_database:
        execute(root, "DROP TABLE latest_metrics")
    else:
        (root / "mlflow.db").write_bytes(b"something else" * 1000)
    found = deliver(root, *PAIR)
    assert re.fullmatch(".*(not a database|malformed|latest_metrics).*", found.problem)
    with pytest.raises(UserError, match=r"not a database|malformed|latest_metrics"):
        synced(root, record())
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("earlier", [record().started_at, "2026-11-20T17:00:00+00:00"])
def test_a_half_delivered_run_is_made_anew_also_if_the_cell_was_measured_again(root, earlier):
    deliver(root, dataclasses.replace(record(), started_at=earlier))
    execute(root, "UPDATE runs SET status = 'RUNNING', end_time = NULL")
    deliver(root, record())
    ((run,), _) = split(root)
    assert (run.info.status, run.info.start_time) == ("FINISHED", view.start_ms(record()))


def test_a_dead_server_costs_no_record(root, monkeypatch):
    kept = [record(number=number) for number in range(6)]
    deliver(root, *kept[:3])
    port = closed_port()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://someone:s3cret@127.0.0.1:{port}")
    found = deliver(root, *kept)
    with pytest.raises(UserError, match="MLFLOW_TRACKING_URI") as raised:
        synced(root, *kept)
    with pytest.raises(UserError, match="MLFLOW_TRACKING_URI") as raised_by_ui:
        serve(root, open_browser=False)
    for told in (found.problem, str(raised.value), str(raised_by_ui.value)):
        assert f"http://someone:***@127.0.0.1:{port}" in told
        assert "s3cret" not in told
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    assert [synced(root), synced(root)] == [3, 0]
    assert len(split(root)[0]) == 6


def test_a_run_reaches_a_server_whose_folder_of_files_is_on_another_machine(root, monkeypatch):
    def refuse(client, run_id, text, name):
        raise PermissionError(13, "Permission denied", "/srv")

    monkeypatch.setattr(mlflow, "is_own", lambda root: False)
    monkeypatch.setattr(mlflow.MlflowClient, "log_text", refuse)
    assert deliver(root, record()).problem is None
    assert [run.info.status for run in split(root)[0]] == ["FINISHED"]


def test_sync_reads_records_alone_names_unreadable_ones_and_fills_a_new_store(root, empty_store, monkeypatch, capsys):
    here = record(cell(suite="kept_here"), number=2, environment={**ENVIRONMENT, "tracking": "none"})
    bad = root / "runs/mine/000000000000-01d01d01.json"
    serialize.write_json(bad, {"schema_version": 0})
    serialize.write_json(bad.with_name("plan.json"), {"cells": []})
    of_sync = record(cell(protocol=Protocol.fit, suite="other"), number=1)
    assert synced(root, here, of_sync, record(status=Status.skipped)) == 1
    assert [run.data.tags["sweep"] for run in split(root, "other")[0]] == ["sweep-1"]
    new = shutil.copytree(empty_store, root.with_name("new"))
    (root / "runs").rename(new / "runs")
    monkeypatch.chdir(new)
    assert main(["sync", "--all"]) == 0
    delivered, unreadable, name = capsys.readouterr().out.splitlines()
    assert (delivered, unreadable) == ("MLflow: 2 runs delivered.", "Not readable: 1")
    assert name.startswith(f"  {bad.relative_to(root)}: ")
    assert "schema 0" in name
    assert len(split(new, "other")[0]) == 1


def test_the_reference_is_what_the_sweep_asked_for_first_and_not_what_confirms_it(root):
    write_sweep(root / "runs/mine", *PAIR, suite=SUITE)
    write_sweep(root / "runs/confirmed", *PAIR[::-1], suite=SUITE)
    synced(root)
    assert ("fp32", "reference") in {(run.data.params["precision"], run.data.tags["word"]) for run in split(root)[1]}


def of_one_cell(num, first=0, **changes):
    """Records of processes of one cell in fp32."""
    return [record(cell(repeat=number), number=number, **changes) for number in range(first, first + num)]


def test_the_processes_of_a_cell_are_below_its_run_which_further_ones_change(root):
    synced(root, *of_one_cell(1), record(cell("lstm"), Status.failed, number=51))
    assert synced(root, *of_one_cell(2, first=1)) == 2
    processes, cells = split(root)
    assert (len(processes), len(cells)) == (4, 2)
    lost, parent = sorted(cells, key=lambda run: run.info.status)
    assert (lost.data.tags["word"], lost.info.status, "speed" in lost.data.metrics) == ("failed", "FAILED", False)
    below = [run for run in processes if run.data.tags.get("mlflow.parentRunId") == parent.info.run_id]
    assert {run.info.run_id for run in below} == {run.info.run_id for run in processes} - {lost.info.run_id}
    assert not any("sweep" in run.data.tags for run in below)
    assert parent.data.metrics["speed"] == sorted(run.data.metrics["speed"] for run in below)[1]
    assert parent.data.metrics["num_processes"] == 3
    client = client_of(root)
    used = client.get_metric_history(parent.info.run_id, "system/host_memory_mb")
    assert [point.step for point in used] == [0, 1, 2]
    client.set_tag(parent.info.run_id, "mine", "a note")
    assert synced(root, *of_one_cell(2, first=3)) == 2
    parent_id = parent.info.run_id
    parent = client.get_run(parent_id).data
    assert (len(split(root)[0]), parent.metrics["num_processes"], parent.tags["mine"]) == (6, 5, "a note")
    # Those of newer code are a cell of their own; the failed one is part of both sweeps.
    environment = {**ENVIRONMENT, "files": {"model.target": "2"}}
    synced(root, *of_one_cell(1, first=5, environment=environment, sweep_id="sweep-2"))
    assert sorted(run.data.tags["sweep"] for run in split(root)[1]) == ["sweep-1", "sweep-1 sweep-2", "sweep-2"]
    assert client.get_run(parent_id).data.to_dictionary() == parent.to_dictionary()
    experiment = client.get_experiment_by_name(f"accelbench/{SUITE}")
    found = [client.search_runs([experiment.experiment_id], view.search(name)) for name in ("sweep-1", "sweep-2")]
    assert list(map(len, found)) == [2, 2]
    assert json.loads(experiment.tags[view.VIEW_TAG])["state"].count("sweep-2") == 1
    with Delivery("mlflow", root, is_confirming=True) as delivery:  # as `compare --top` measures a pair of them again
        delivery.add(record(number=2, sweep_id="sweep-3"))
        delivery.finish(map(Process.of, delivery._waiting))
    assert client.get_experiment(experiment.experiment_id).tags == experiment.tags
