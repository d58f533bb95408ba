import json
import os
import signal
import socket
import subprocess
from urllib.error import HTTPError
from urllib.request import Request

import pytest

from accelbench.errors import UserError
from accelbench.sinks import mlflow_fields as view
from accelbench.sinks.ui import DIRECT, serve
from tests.sinks.samples import cell, record
from tests.sinks.stores import client_of, closed_port, deliver, split, started

SERVE = "sys.exit(ui.serve(Path(sys.argv[1]), int(sys.argv[2]), open_browser=False))"


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
    process = started(SERVE, root, port, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **listening)
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
