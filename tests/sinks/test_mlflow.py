"""Delivery to MLflow, sync and ui, on real stores, of which most are copies of one."""

import contextlib
import dataclasses
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock
from urllib.error import HTTPError
from urllib.request import Request

import pytest

from accelbench.answers.cells import Process
from accelbench.cli import main
from accelbench.errors import UserError
from accelbench.report.read import read_all
from accelbench.schema import record as records
from accelbench.schema import serialize
from accelbench.schema.cell import Precision, Protocol, Status
from accelbench.sinks import location, mlflow
from accelbench.sinks import mlflow_fields as view
from accelbench.sinks.delivery import Delivery, sync
from accelbench.sinks.ui import DIRECT, serve
from fakes import write_sweep
from tests.sinks.samples import ENVIRONMENT, MAKER, cell, record

SUITE = "mnist_networks"


def started(code, *arguments, **options):
    """A process that runs a function of the sinks' with the path and the others of its arguments."""
    code = f"import sys; from pathlib import Path; from accelbench.sinks import mlflow, ui; {code}"
    return subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], text=True, **options)


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def deliver(root, *to_deliver):
    delivery = Delivery("mlflow", root)
    delivery.open()
    for one in to_deliver:
        delivery.add(one)
    delivery.deliver()
    return delivery


def client_of(root):
    return mlflow.MlflowClient(f"sqlite:///{root}/mlflow.db")


def split(root, suite=SUITE):
    """The runs of processes, and those of cells (of which a process may be the only one)."""
    client = client_of(root)
    experiment = client.get_experiment_by_name(f"accelbench/{suite}")
    runs = client.search_runs([experiment.experiment_id], max_results=1000) if experiment else []
    return [run for run in runs if "record" in run.data.tags], [run for run in runs if "word" in run.data.tags]


@pytest.fixture
def root(empty_store, tmp_path):
    """A root with a store of its own: a copy of the empty one."""
    return shutil.copytree(empty_store, tmp_path / "project")


def synced(root, *made):
    """How many runs `accelbench sync` delivers of the records in runs/, after these were written there."""
    for each in made:
        records.write(each, root / "runs/mine")
    return sync(root, [sweep.processes for sweep in read_all(root / "runs")])


def execute(root, statement):
    with contextlib.closing(sqlite3.connect(root / "mlflow.db")) as connection, connection:
        return connection.execute(statement).fetchall()


@pytest.mark.slow
def test_two_creators_at_once_leave_one_whole_store(tmp_path):
    create = "mlflow.Store(Path(sys.argv[1])).delivered('racing')"
    creators = [started(create, tmp_path, cwd=tmp_path, stderr=subprocess.PIPE) for _ in range(2)]
    assert [creator.communicate()[1] for creator in creators] == ["", ""]
    assert [creator.returncode for creator in creators] == [0, 0]
    assert execute(tmp_path, "PRAGMA integrity_check") == [("ok",)]
    assert execute(tmp_path, "PRAGMA journal_mode") == [("wal",)]
    assert execute(tmp_path, "SELECT count(*) FROM alembic_version") == [(1,)]
    names = execute(tmp_path, "SELECT name FROM experiments WHERE name LIKE 'accelbench/%'")
    assert names == [("accelbench/racing",)]


def test_a_run_holds_all_of_its_record(root):
    of = record(data=MAKER.stand_in)
    assert deliver(root, of).problem is None
    ((run,), _) = split(root)
    assert run.info.run_name == "cnn train fp32 b128"
    assert (run.info.status, run.info.end_time - run.info.start_time) == ("FINISHED", 2250)
    assert (run.data.params["batch_size"], run.data.metrics["batch_size"]) == ("128", 128)
    assert (run.data.tags["sweep"], run.data.tags["mlflow.source.git.commit"]) == ("sweep-1", "8d93729")
    (dataset,) = run.inputs.dataset_inputs
    assert (dataset.dataset.name, dataset.dataset.digest) == ("mnist (stand-in)", MAKER.stand_in.digest[:12])
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
    assert "times as fast as PyTorch fp32 b128" in fast.data.tags[view.NOTE]
    client = client_of(root)
    answer, bars = client.get_experiment(fast.info.experiment_id).tags[view.NOTE].split("\n\n", 1)
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
    refuse = Mock(side_effect=PermissionError(13, "Permission denied", "/srv"))
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


@pytest.mark.parametrize(("refused", "num_sent"), [((), 5), ((2,), 5), ((2, 3), 1)])
def test_after_a_failure_the_rest_is_sent_at_the_end_of_the_sweep(monkeypatch, refused, num_sent):
    sent, numbers, store = [], iter(range(1, 99)), Mock()

    def send(record, *, is_confirming):
        if (number := next(numbers)) in refused:
            raise RuntimeError(f"no room for number {number}\nand more")
        sent.append(record)

    store.deliver = send
    monkeypatch.setattr("accelbench.sinks.delivery.open_store", lambda root: store)
    made = [record(number=number) for number in range(5)]
    delivery = deliver(Path(), *made)
    delivery.finish(map(Process.of, made))
    assert (sent, store.relate.called) == (made[:num_sent], num_sent == 5)
    lost = "MLflow lacks runs (no room for number 3 and more): `accelbench sync` delivers them."
    assert delivery.loss() == ("" if num_sent == 5 else lost)


def test_a_store_that_does_not_open_is_asked_once(monkeypatch):
    monkeypatch.setattr("accelbench.sinks.delivery.open_store", asked := Mock(side_effect=ConnectionError("refused")))
    delivery = deliver(Path(), record())
    delivery.finish()
    assert (delivery.problem, asked.call_count) == ("refused", 1)


def test_what_a_server_says_is_safe_to_print_and_shows_no_password():
    assert location.one_line(RuntimeError("\n\x1b[31mred\x07\u202e")) == r"\x1b[31mred\x07\u202e"
    long = "x" * 285  # a password is masked before the text is cut
    assert location.one_line(RuntimeError(f"{long}http://me:s3cret@host")) == f"{long}http://me:***@…"


def test_a_store_that_another_program_writes_is_refused_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(location, "PATIENCE_S", 0.1)
    with contextlib.closing(sqlite3.connect(tmp_path / "mlflow.db", isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        with pytest.raises(UserError, match="mlflow.db: not usable .database is locked"), location.locked(tmp_path):
            pytest.fail("it is not writable")


@pytest.mark.parametrize("name", ["a?b", "a#b", "a%41", os.fsdecode(b"caf\xe9")])
def test_a_folder_that_no_address_of_a_database_can_name_is_refused_and_stays_empty(name, tmp_path):
    (tmp_path / name).mkdir()
    told = "name another store with MLFLOW_TRACKING_URI"
    with pytest.raises(UserError, match=told), location.locked(tmp_path / name):
        pytest.fail("MLflow would use another file")
    assert not any((tmp_path / name).iterdir())


def test_links_hold_no_credentials(tmp_path, monkeypatch):
    assert location.is_own(tmp_path)
    for uri, page in (
        ("https://me:s3cret@host:80/mlflow", "https://host:80/mlflow"),
        *(("https://token@host", "https://host"), ("http://[::1", "http://[::1")),
        ("postgresql://me:s3cret@host/db", None),
    ):
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
        assert (location.tracking_uri(tmp_path), location.is_own(tmp_path)) == (uri, False)
        assert location.server_uri(tmp_path) == page


def test_without_a_store_a_run_or_a_usable_port_it_says_what_to_do(root, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port, free = taken.getsockname()[1], closed_port()
        for place, number, told in (
            *((tmp_path, free, "run a sweep first"), (root, free, "run a sweep first")),
            *((root, port, f"--port={port}"), (root, 70_000, "--port=70000")),
        ):
            with pytest.raises(UserError, match=told):
                serve(place, number)


def answer_of(address, host=None):
    with DIRECT.open(Request(address, headers={"Host": host} if host else {})) as answer:
        return json.load(answer)


@pytest.mark.slow
def test_it_serves_the_newest_experiment_of_a_moved_project_until_ctrl_c(root, monkeypatch, capsys):
    deliver(root, record(), record(cell(suite="newer"), number=5, sweep_id="sweep-2"))
    root = root.rename(root.with_name("moved"))
    port = closed_port()
    # A shell has what it starts in the background ignore Ctrl-C, and the tests pass that on.
    listening = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}
    code = "sys.exit(ui.serve(Path(sys.argv[1]), int(sys.argv[2]), open_browser=False))"
    process = started(code, root, port, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **listening)
    try:
        url = process.stdout.readline().removeprefix("MLflow: ").strip()
        newest = client_of(root).get_experiment_by_name("accelbench/newer").experiment_id
        assert url == view.view_url(f"http://accelbench.localhost:{port}", newest)
        asked = f"http://127.0.0.1:{port}/api/2.0/mlflow/experiments/get?experiment_id={newest}"
        assert answer_of(asked)["experiment"]["name"] == "accelbench/newer"
        for host in ("localhost:8080", "accelbench.localhost:8080"):
            assert answer_of(asked, host)["experiment"]["name"] == "accelbench/newer"
        for host in ("attacker.example", f"10.attacker.example:{port}", "0.0.0.0"):
            with pytest.raises(HTTPError, match="403"):
                answer_of(asked, host)
        ((run,), _) = split(root, "newer")
        file = f"http://127.0.0.1:{port}/get-artifact?path=record.json&run_uuid={run.info.run_id}"
        (kept,) = (root / "mlartifacts" / "newer").rglob("record.json")
        assert answer_of(file) == json.loads(kept.read_text())

        # The same server takes records over HTTP, as a shared one does.
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://someone:s3cret@127.0.0.1:{port}")
        capsys.readouterr()
        delivery = deliver(root, record(number=9))
        assert delivery.problem is None
        assert capsys.readouterr().out == ""  # MLflow would print two addresses for each run
        assert len(split(root)[0]) == 2
        assert serve(root, open_browser=False) == 0
        assert f"MLflow: http://127.0.0.1:{port}/#/experiments/" in capsys.readouterr().out
    finally:
        os.kill(process.pid, signal.SIGINT)
        _, printed = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "Warning" not in printed
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=2)
