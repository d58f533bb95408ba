"""MLflow sinks, sync and UI on real stores: one sqlite store is shared, since creating one takes seconds."""

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
import tempfile
import time
from contextlib import closing
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request

import pytest

from accelbench import lock, scratch
from accelbench.cli import main
from accelbench.devices import packages
from accelbench.errors import UserError
from accelbench.project import Workplace
from accelbench.schema import conditions, serialize
from accelbench.schema import record as records
from accelbench.schema.measurement import Block
from accelbench.schema.vocab import Precision, Protocol, Status
from accelbench.sinks import base, in_time, location, view
from accelbench.sinks.registry import make_sinks
from accelbench.sinks.sync import sync
from accelbench.sinks.ui import DIRECT, serve
from fakes import give_ceilings, make_project
from tests.sinks import servers
from tests.sinks.samples import REASONS, STAND_IN, cell, record, relations, resnet18

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*noload:DeprecationWarning"),  # MLflow's own models
    pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SADeprecationWarning"),
]
SCRIPT = "import sys; from pathlib import Path; from accelbench.sinks.{module} import {what}; {call}"


@pytest.fixture(autouse=True)
def _own_store(monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.delenv("DVC_ROOT", raising=False)


@pytest.fixture(scope="module")
def empty_store(tmp_path_factory) -> Path:
    """A root, with both kinds of quotes in its name, whose store was created by two processes in it at once."""
    root = tmp_path_factory.mktemp("created") / "'odd' and \"quoted\""
    root.mkdir()
    script = SCRIPT.format(module="mlflow", what="Store", call="Store(Path(sys.argv[1])).delivered('racing')")
    creators = [
        subprocess.Popen([sys.executable, "-c", script, root], cwd=root, stderr=subprocess.PIPE) for _ in range(2)
    ]
    assert [creator.communicate()[1] for creator in creators] == [b"", b""]
    assert [creator.returncode for creator in creators] == [0, 0]
    return root


@pytest.fixture
def root(empty_store, tmp_path) -> Path:
    """A root with a store of its own: a copy of the empty one."""
    shutil.copytree(empty_store, tmp_path / "project")
    return tmp_path / "project"


def client_of(root):
    from mlflow import MlflowClient

    return MlflowClient(f"sqlite:///{root}/mlflow.db")


def runs_of(root, suite="mnist_networks"):
    client = client_of(root)
    experiment = client.get_experiment_by_name(f"accelbench/{suite}")
    found = client.search_runs([experiment.experiment_id]) if experiment else []
    return [run for run in found if run.data.tags.get("accelbench.kind") != "aggregate"]


def deliver(root, *to_deliver):
    (sink,) = make_sinks("mlflow", root)
    with sink:
        for one in to_deliver:
            sink.deliver(one)
    return sink


def test_two_creators_leave_one_whole_store(empty_store):
    with closing(sqlite3.connect(empty_store / "mlflow.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("SELECT count(*) FROM alembic_version").fetchone() == (1,)
        names = connection.execute("SELECT name FROM experiments WHERE name LIKE 'accelbench/%'").fetchall()
    assert names == [("accelbench/racing",)]


def test_a_run_holds_all_of_its_record(root):
    of = record(data=STAND_IN)
    sink = deliver(root, of)
    assert (sink.undelivered, sink.problem) == (0, None)
    (run,) = runs_of(root)
    assert run.info.run_name == "cnn-cpu-fp32-b128-train"
    assert (run.info.status, run.info.end_time - run.info.start_time) == ("FINISHED", 2250)
    assert run.data.params["batch_size"] == "128"
    assert run.data.metrics["setting/batch_size"] == 128
    assert run.data.tags["sweep_id"] == "sweep-1"
    assert run.data.tags["mlflow.source.git.commit"] == "8d93729"
    (dataset,) = run.inputs.dataset_inputs
    assert (dataset.dataset.name, dataset.dataset.digest) == ("mnist (stand-in)", STAND_IN.digest[:12])
    file = root / "mlartifacts" / "mnist_networks" / run.info.run_id / "artifacts" / "record.json"
    assert records.read(file) == of


def test_runs_of_one_model_are_compared_with_the_fastest(root):
    measured = [record(resnet18(Precision(word)), number=number) for number, word in enumerate(("fp32", "bf16"))]
    other = record(cell("mlp"), number=2)
    (sink,) = make_sinks("mlflow", root)
    with sink:
        for one in [*measured, other]:
            sink.deliver(one)
        sink.relate(relations([*measured, other]))
    assert sink.problem is None
    runs = {run.data.tags["record"]: run for run in runs_of(root)}
    shares = {name: run.data.metrics.get(view.SHARE) for name, run in runs.items()}
    rates = [runs[one.name].data.metrics[view.SPEED] for one in measured]
    assert [shares[one.name] for one in measured] == [pytest.approx(rate / max(rates)) for rate in rates]
    assert shares[other.name] is None
    slow, fast = sorted((runs[one.name] for one in measured), key=lambda run: run.data.metrics[view.SPEED])
    assert "/compare-runs?" in slow.data.tags["mlflow.note.content"]
    assert fast.info.run_id in slow.data.tags["mlflow.note.content"]
    assert "/compare-runs?" not in fast.data.tags["mlflow.note.content"]
    assert slow.data.tags["verdict"].endswith((", likely", ", can't tell"))
    assert slow.data.tags["verdict"] in slow.data.tags["mlflow.note.content"]
    assert "`accelbench compare --run " in slow.data.tags["mlflow.note.content"]
    assert fast.data.tags["verdict"] == "fastest"


def test_a_description_that_the_user_wrote_stays_and_a_link_goes_with_the_fastest(root):
    slow, fast = (
        record(cell(precision=Precision(word)), number=number) for number, word in enumerate(("fp32", "bf16"))
    )
    fastest = record(cell(precision=Precision.bf16, batch_size=512), number=2)
    (sink,) = make_sinks("mlflow", root)
    with sink:
        for one in (slow, fast, fastest):
            sink.deliver(one)
        ids = {run.data.tags["record"]: run.info.run_id for run in runs_of(root)}
        client_of(root).set_tag(ids[slow.name], "mlflow.note.content", "My own words.")
        sink.relate(relations([slow, fast, fastest]))
        before = {run.data.tags["record"]: run.data.tags["mlflow.note.content"] for run in runs_of(root)}
        sink.relate(relations([slow, fast]))
    after = {run.data.tags["record"]: run.data.tags["mlflow.note.content"] for run in runs_of(root)}
    assert before[slow.name] == after[slow.name] == "My own words."
    assert ids[fastest.name] in before[fast.name]
    assert "/compare-runs?" not in after[fast.name]


def test_sync_adds_how_speeds_compare_where_a_sweep_was_interrupted_before(root):
    measured = [record(cell(precision=Precision(word)), number=number) for number, word in enumerate(("fp32", "bf16"))]
    for one in measured:
        records.write(one, root / "runs" / "mine")
    assert deliver(root, *measured).problem is None
    assert not any(view.SHARE in run.data.metrics for run in runs_of(root))
    assert sync(root, [root / "runs"]).num_delivered == 0
    assert all(view.SHARE in run.data.metrics for run in runs_of(root))


def files_below(folder) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_copied_project_keeps_the_files_of_its_runs_to_itself(root, tmp_path):
    deliver(root, record())
    before = files_below(root / "mlartifacts")
    copy = shutil.copytree(root, tmp_path / "copy")
    assert deliver(copy, record(), record(number=1)).problem is None
    assert files_below(root / "mlartifacts") == before
    assert len(runs_of(root)) == 1
    assert len(runs_of(copy)) == 2
    for run in runs_of(copy):
        assert run.info.artifact_uri == f"mlflow-artifacts:/mnist_networks/{run.info.run_id}/artifacts"
        assert (copy / "mlartifacts" / "mnist_networks" / run.info.run_id / "artifacts" / "record.json").exists()


def test_a_store_with_the_addresses_of_another_folder_is_refused_with_the_cure(root, tmp_path):
    """As earlier versions made them."""
    absolute = (root / "mlartifacts" / "mnist_networks").as_uri()
    client_of(root).create_experiment("accelbench/mnist_networks", absolute)
    one = record()
    records.write(one, root / "results" / "mnist_networks")
    assert deliver(root, one).problem is None  # in its own place it stays valid
    before = files_below(root / "mlartifacts")

    copy = shutil.copytree(root, tmp_path / "copy")
    sink = deliver(copy, record(number=1))
    assert sink.undelivered == 1
    assert f"mlflow.db was made in another place, and would put files into {root}" in sink.problem
    with pytest.raises(UserError, match="move it away, then `accelbench sync` makes a new one from the records"):
        sync(copy, [copy / "results"])
    assert files_below(root / "mlartifacts") == before


def test_records_that_a_locked_store_missed_are_delivered_by_sync(root, monkeypatch, capfd):
    monkeypatch.setattr(location, "PATIENCE_S", 0.1)
    monkeypatch.setattr(base, "PATIENCE_S", 0.3)
    kept = [record(number=number) for number in range(5)]
    for one in kept:
        records.write(one, root / "results" / "mnist_networks")
    (sink,) = make_sinks("mlflow", root)
    with sink:
        sink.deliver(kept[0])
        with location.locked(root):
            for one in kept[1:]:
                sink.deliver(one)
    assert sink.undelivered == 4
    assert "another writer of the MLflow store" in sink.problem
    assert sync(root, [root / "results"]).num_delivered == 4
    assert len(runs_of(root)) == 5
    assert capfd.readouterr() == ("", "")


def a_folder(root):
    (root / "mlflow.db").unlink()
    (root / "mlflow.db").mkdir()


def no_database(root):
    (root / "mlflow.db").write_bytes(b"something else" * 1000)


def half_overwritten(root):
    content = (root / "mlflow.db").read_bytes()
    (root / "mlflow.db").write_bytes(content[:8192] + b"\xaa" * (len(content) - 8192))


@pytest.mark.parametrize("spoil", [a_folder, no_database, half_overwritten])
def test_a_spoilt_store_costs_no_record_and_is_one_line(spoil, root, capfd):
    spoil(root)
    sink = deliver(root, record(), record(number=1))
    assert sink.undelivered == 2
    assert "\n" not in sink.problem
    assert re.search("unable to open|not a database|malformed", sink.problem)
    with pytest.raises(UserError, match=r"unable to open|not a database|malformed"):
        sync(root, [root / "results"])
    assert capfd.readouterr() == ("", "")


def test_asking_for_a_page_that_is_not_there_changes_nothing(root):
    (sink,) = make_sinks("mlflow", root)
    with sink:
        assert sink.link(record(cell(suite="never_run"))) is None
    assert (sink.problem, client_of(root).get_experiment_by_name("accelbench/never_run")) == (None, None)


def test_a_run_is_whole_though_its_picture_fails(root, monkeypatch):
    def broken(record):
        raise ValueError("no picture")

    monkeypatch.setattr("accelbench.sinks.run_picture.draw", broken)
    assert deliver(root, record()).problem == "no picture"
    (run,) = runs_of(root)
    assert run.info.status == "FINISHED"
    assert (root / "mlartifacts" / "mnist_networks" / run.info.run_id / "artifacts" / "record.json").exists()


def test_what_a_delivery_writes_for_a_moment_is_in_a_folder_that_does_not_outlive_it(root, monkeypatch):
    places = []
    monkeypatch.setattr("accelbench.sinks.run_picture.draw", lambda record: places.append(tempfile.gettempdir()))
    before = tempfile.gettempdir()
    deliver(root, record())
    (place,) = map(Path, places)
    assert (place.parent, place.name.startswith(scratch.PREFIX), place.exists()) == (Path(before), True, False)
    assert tempfile.gettempdir() == before


def test_a_run_of_one_second_has_system_series(root):
    deliver(root, record())
    (run,) = runs_of(root)
    history = client_of(root).get_metric_history(run.info.run_id, "system/host_memory_mb")
    assert [(point.step, point.timestamp - run.info.start_time) for point in history] == [
        (i, 100 * i) for i in range(10)
    ]


def test_every_status_but_skipped_is_a_run(root):
    sink = deliver(root, *[record(status=status, number=number) for number, status in enumerate(Status)])
    assert sink.undelivered == 0
    assert {run.data.tags["status"]: run.info.status for run in runs_of(root)} == {
        "ok": "FINISHED",
        "failed": "FAILED",
        "oom": "FAILED",
        "timeout": "FAILED",
        "killed": "KILLED",
        "invalid": "FAILED",
    }
    reasons = {run.data.tags["status"]: run.data.tags.get("reason") for run in runs_of(root)}
    assert reasons == {status.value: REASONS.get(status) for status in Status if status != Status.skipped}


def test_delivering_twice_makes_one_run(root):
    deliver(root, record(), record())
    deliver(root, record(), record(number=1))
    assert len(runs_of(root)) == 2


def test_a_half_delivered_run_is_made_anew(root):
    deliver(root, record())
    with closing(sqlite3.connect(root / "mlflow.db")) as connection, connection:
        connection.execute("UPDATE runs SET status = 'RUNNING', end_time = NULL")
    deliver(root, record())
    assert [run.info.status for run in runs_of(root)] == ["FINISHED"]


def test_a_half_delivered_run_of_a_cell_that_was_measured_again_is_removed(root):
    first = dataclasses.replace(record(), started_at="2026-11-20T17:00:00+00:00")
    deliver(root, first)
    with closing(sqlite3.connect(root / "mlflow.db")) as connection, connection:
        connection.execute("UPDATE runs SET status = 'RUNNING', end_time = NULL")
    deliver(root, record())
    assert [(run.info.status, run.data.tags["started_at"]) for run in runs_of(root)] == [
        ("FINISHED", record().started_at)
    ]


def test_a_store_that_fails_prints_nothing(root, capfd):
    deliver(root, record())
    with closing(sqlite3.connect(root / "mlflow.db")) as connection, connection:
        connection.execute("DROP TABLE latest_metrics")
    sink = deliver(root, record(number=1))
    assert (sink.undelivered, "latest_metrics" in sink.problem) == (1, True)
    assert capfd.readouterr() == ("", "")


def test_more_points_than_one_batch_takes(root):
    base = record()
    for_blocks = [Block(num_steps=1, num_samples=128, seconds=0.1 + i / 1e4) for i in range(3)]
    values = {f"gpu_{i}_memory_mb": [float(j) for j in range(200)] for i in range(8)}
    system = conditions.SystemSeries(t_s=[0.1 * j for j in range(200)], values=values)
    measured = dataclasses.replace(base.measurement, blocks=for_blocks)
    sink = deliver(root, dataclasses.replace(base, system=system, measurement=measured))
    assert sink.problem is None
    (run,) = runs_of(root)
    assert len(client_of(root).get_metric_history(run.info.run_id, "system/gpu_7_memory_mb")) == 200


def test_the_view_is_saved_once(root):
    deliver(root, record())
    experiment = client_of(root).get_experiment_by_name("accelbench/mnist_networks")
    deliver(root, record(number=1))
    again = client_of(root).get_experiment_by_name("accelbench/mnist_networks")
    assert experiment.tags[view.TAG] == again.tags[view.TAG]


def test_a_store_of_another_release_is_neither_used_nor_migrated(root, tmp_path):
    with closing(sqlite3.connect(root / "mlflow.db")) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = 'cc1f77228345'")
        connection.execute("DROP TABLE webhooks")  # MLflow migrates a store that lacks one of its tables
    sink = deliver(root, record())
    assert sink.undelivered == 1
    assert sink.problem.startswith("mlflow.db is of another release of MLflow, and is left as it is: name another")
    with closing(sqlite3.connect(root / "mlflow.db")) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [("cc1f77228345",)]


def test_nothing_is_added_to_a_store_of_the_users_own(root):
    with closing(sqlite3.connect(root / "mlflow.db")) as connection, connection:
        connection.execute("UPDATE experiments SET name = 'mine' WHERE name LIKE 'accelbench/%'")
    sink = deliver(root, record())
    assert sink.undelivered == 1
    assert sink.problem.startswith("mlflow.db has runs or experiments of yours, and none of accelbench, and is left as")
    with closing(sqlite3.connect(root / "mlflow.db")) as connection:
        assert sorted(connection.execute("SELECT name FROM experiments")) == [("Default",), ("mine",)]


def test_a_deleted_experiment_comes_back(root):
    deliver(root, record())
    client = client_of(root)
    client.delete_experiment(client.get_experiment_by_name("accelbench/mnist_networks").experiment_id)
    assert deliver(root, record(number=1)).undelivered == 0
    assert len(runs_of(root)) == 2


def test_queued_experiments_share_the_main_checkouts_store(root, tmp_path, monkeypatch):
    monkeypatch.setenv("DVC_ROOT", str(root))
    assert deliver(Workplace.of_project(tmp_path).store, record()).undelivered == 0
    assert len(runs_of(root)) == 1
    assert not (tmp_path / "mlflow.db").exists()


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_a_dead_server_costs_a_sweep_seconds_and_no_record(root, monkeypatch):
    kept = [record(number=number) for number in range(20)]
    for one in kept:
        records.write(one, root / "results" / "mnist_networks")
    deliver(root, *kept[:3])
    port = closed_port()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://someone:s3cret@127.0.0.1:{port}")
    start = time.monotonic()
    sink = deliver(root, *kept)
    assert time.monotonic() - start < 5
    assert sink.undelivered == 20
    assert "127.0.0.1" in sink.problem
    with pytest.raises(UserError, match="MLFLOW_TRACKING_URI") as raised:
        sync(root, [root / "results"])
    with pytest.raises(UserError, match="MLFLOW_TRACKING_URI") as raised_by_ui:
        serve(root, open_browser=False)
    for told in (sink.problem, str(raised.value), str(raised_by_ui.value)):
        assert f"http://someone:***@127.0.0.1:{port}" in told
        assert "s3cret" not in told

    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    result = sync(root, [root / "results", root / "runs"])
    assert (result.num_delivered, result.num_already_there) == (17, 3)
    assert len(runs_of(root)) == 20
    result = sync(root, [root / "results"])
    assert (result.num_delivered, result.num_already_there) == (0, 20)


@pytest.mark.parametrize("kind", servers.KINDS)
@pytest.mark.fault
def test_a_server_that_is_no_store_costs_one_line_and_no_record(root, monkeypatch, kind):
    monkeypatch.setattr(in_time, "CALL_S", 0.5)
    monkeypatch.setattr(in_time, "MAX_KB", 50_000)
    one = record()
    records.write(one, root / "results")
    with servers.server(kind) as address:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
        sink = deliver(root, one)
        assert sink.undelivered == 1
        assert len(sink.problem.splitlines()) == 1
        with pytest.raises(UserError, match="does not answer"):
            sync(root, [root / "results"])
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    assert sync(root, [root / "results"]).num_delivered == 1


@pytest.mark.slow
@pytest.mark.fault
@pytest.mark.parametrize("kind", ["redirects_to_a_page", "endless_body"])
def test_a_server_that_is_no_store_costs_a_measured_cell_one_line(kind, tmp_path, monkeypatch, capsys):
    """The cell is measured, its card printed and its record kept; the lock is free before the server is given up."""
    project = make_project(tmp_path / "project")
    give_ceilings(project)
    monkeypatch.chdir(project)
    monkeypatch.setattr(in_time, "CALL_S", 1.0)
    window = ("measure_s=0.05", "warmup_s=0.02", "latency_s=0.05", "block_s=0.01")
    words = ["model=mlp", "model.args.widths=[8]", "data=random", "mode=infer", "device=cpu", "batch_size=8"]
    with servers.server(kind) as address:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
        assert (
            main([*words, *(f"window.{word}" for word in window), "breakdown_s=0", "tracking=mlflow", "out=runs/a"])
            == 0
        )
    told = capsys.readouterr()
    assert "samples/s" in told.out
    assert "MLflow" in told.out + told.err
    assert "Traceback" not in told.out + told.err
    (kept,) = [records.read(path) for path in (project / "runs/a").glob("*-*.json")]
    assert kept.status == Status.ok
    with lock.hold_measuring(pytest.fail):
        pass
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    assert sync(project, [project / "runs/a"]).num_delivered == 1


def test_sync_reads_records_alone_and_fills_a_new_store(root, empty_store, tmp_path):
    folder = root / "runs" / "2026-11-20"
    records.write(record(status=Status.skipped), folder)
    records.write(record(cell(protocol=Protocol.fit, suite="other"), number=1), folder)
    serialize.write_json(folder / "plan.json", {"cells": []})
    serialize.write_json(folder / "000000000000-01d01d01.json", {"schema_version": 0})
    result = sync(root, [root / "runs"])
    assert (result.num_delivered, result.num_already_there) == (1, 0)
    (unreadable,) = result.unreadable
    assert "01d01d01.json" in unreadable
    assert "schema 0" in unreadable
    assert "\n1 record can't be read and was not delivered:\n" in str(result)
    (run,) = runs_of(root, "other")
    assert run.data.tags["sweep_id"] == "sweep-1"

    new = shutil.copytree(empty_store, tmp_path / "new")
    assert sync(new, [root / "runs"]).num_delivered == 1
    assert len(runs_of(new, "other")) == 1


def test_the_ui_without_a_store_says_what_to_do(tmp_path):
    with pytest.raises(UserError, match="run a sweep first"):
        serve(tmp_path)


def test_the_ui_without_a_run_says_what_to_do(root):
    with pytest.raises(UserError, match="run a sweep first"):
        serve(root, closed_port())


def test_the_ui_without_mlflows_server_says_what_to_install(root, monkeypatch):
    version = packages.version
    monkeypatch.setattr(packages, "version", lambda name: None if name == "mlflow" else version(name))
    with pytest.raises(UserError, match="MLflow's server is not installed"):
        serve(root, closed_port())


def test_a_taken_port_names_the_flag(root):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(UserError, match=f"--port={taken.getsockname()[1]}"):
            serve(root, taken.getsockname()[1])


@pytest.mark.parametrize("port", [0, 70_000])
def test_an_impossible_port_names_the_range(root, port):
    with pytest.raises(UserError, match=f"--port={port}: should be a number from 1 to 65535"):
        serve(root, port)


def answer_of(address, host=None):
    with DIRECT.open(Request(address, headers={"Host": host} if host else {})) as answer:
        return json.load(answer)


@pytest.mark.slow
def test_the_ui_serves_the_newest_experiment_of_a_moved_project_until_ctrl_c(root, monkeypatch, capsys):
    deliver(root, record(), record(cell(suite="newer"), number=5))
    root = root.rename(root.with_name("moved"))
    port = closed_port()
    call = "sys.exit(serve(Path(sys.argv[1]), int(sys.argv[2]), open_browser=False))"
    script = SCRIPT.format(module="ui", what="serve", call=call)
    process = subprocess.Popen(
        [sys.executable, "-c", script, root, str(port)],
        stdout=subprocess.PIPE,
        text=True,
        # A shell has what it starts in the background ignore Ctrl-C, and the tests pass that on.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        url = process.stdout.readline().removeprefix("MLflow: ").strip()
        newest = client_of(root).get_experiment_by_name("accelbench/newer").experiment_id
        assert url == view.view_url(f"http://127.0.0.1:{port}", newest)
        asked = f"http://127.0.0.1:{port}/api/2.0/mlflow/experiments/get?experiment_id={newest}"
        assert answer_of(asked)["experiment"]["name"] == "accelbench/newer"
        assert answer_of(asked, host="localhost:8080")["experiment"]["name"] == "accelbench/newer"
        for host in ("attacker.example", f"10.attacker.example:{port}", "0.0.0.0"):
            with pytest.raises(HTTPError, match="403"):
                answer_of(asked, host)
        (run,) = runs_of(root, "newer")
        file = f"http://127.0.0.1:{port}/get-artifact?path=record.json&run_uuid={run.info.run_id}"
        (kept,) = (root / "mlartifacts" / "newer").rglob("record.json")
        assert answer_of(file) == json.loads(kept.read_text())

        # The same server takes records over HTTP, as a shared one does.
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://someone:s3cret@127.0.0.1:{port}")
        capsys.readouterr()
        (sink,) = make_sinks("mlflow", root)
        with sink:
            sink.deliver(record(number=9))
            assert sink.link(record(number=9)).startswith(f"http://127.0.0.1:{port}/#/experiments/")
        assert sink.problem is None
        assert capsys.readouterr().out == ""  # MLflow would print two addresses for each run
        assert len(runs_of(root)) == 2
        assert serve(root, open_browser=False) == 0
        assert f"MLflow: http://127.0.0.1:{port}/#/experiments/" in capsys.readouterr().out
    finally:
        os.kill(process.pid, signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 0
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=2)
