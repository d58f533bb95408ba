"""Opens MLflow's UI for the project's store, with the saved view."""

import os
import signal
import socket
import subprocess
import sys
import time
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.request import ProxyHandler, build_opener

from accelbench.devices import packages
from accelbench.errors import UserError, how_to_install
from accelbench.lifeline import ending_as_ctrl_c
from accelbench.sinks.delivery import open_store
from accelbench.sinks.location import (
    HOST,
    PORT,
    artifacts,
    database,
    is_own,
    server_uri,
    tracking_uri,
    unreachable,
)
from accelbench.sinks.mlflow_fields import view_url

# Another name of `HOST` in browsers. On the first visit at a usual name, MLflow's assistant covers some columns.
NAME = "accelbench.localhost"
DIRECT = build_opener(ProxyHandler({}))  # ignores the shell's proxy: the server is on this machine
# With any port, because a tunnel may use another one.
ALLOWED_HOSTS = f"{HOST},{HOST}:*,localhost,localhost:*,{NAME}:*"


def serve(root: Path, port: int = PORT, open_browser: bool = True) -> int:
    """Prints and opens the page of the newest sweep, and runs MLflow's server on the project's store until Ctrl-C.

    If MLFLOW_TRACKING_URI names a server, opens that server's page and starts no server. Returns the exit status, 0.

    Raises UserError: there is no run yet, the store can't be reached, the port is in use, the server fails, or MLflow's
    server is not installed.
    """
    if is_own(root) and not database(root).exists():
        raise UserError(f"no MLflow store at {database(root)} yet: run a sweep first")
    if (served := server_uri(root)) is not None:
        _show(view_url(served, _newest_experiment(root)), open_browser)
        return 0
    if packages.version("mlflow") is None:  # runs need only mlflow-skinny, which has no server
        raise UserError(f"MLflow's server is not installed: {how_to_install('ui')}")
    with socket.socket() as probe:
        # As the server does: a just closed port is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except (OSError, OverflowError) as error:
            raise UserError(f"--port={port}: can't be used ({error}); choose another with --port") from error
    print("Starting MLflow (some 10 s) ...", file=sys.stderr, flush=True)
    experiment_id = _newest_experiment(root)
    # Without this, SIGTERM would leave the server running.
    with ending_as_ctrl_c(), suppress(KeyboardInterrupt), _server(root, port) as server:
        if server.poll() is None:
            _show(view_url(f"http://{NAME}:{port}", experiment_id), open_browser)
            print("Ctrl-C ends it.", flush=True)
        raise UserError(f"MLflow's server ended by itself (exit status {server.wait()})")
    return 0


def _newest_experiment(root: Path) -> str:
    try:
        return str(open_store(root).newest_experiment())
    except Exception as error:
        raise unreachable(root, error) from error


def _show(url: str, open_browser: bool) -> None:
    print(f"MLflow: {url}", flush=True)
    if open_browser:
        webbrowser.open(url)


@contextmanager
def _server(root: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Yields a running MLflow server. At the end of the block, the server and its workers are ended."""
    command = [sys.executable, *f"-m mlflow server --host {HOST} --port {port} --workers 1".split()]
    command += ["--artifacts-destination", str(artifacts(root)), "--uvicorn-opts", "--log-level warning"]
    # By default the server also accepts names such as 10.x.example. A hostile page can point them to this machine.
    command += ["--allowed-hosts", ALLOWED_HOSTS]
    command += ["--cors-allowed-origins", f"http://{NAME}:*"]  # the default refuses its own pages
    # MLflow's job runner evaluates language models. It would start two more processes.
    environment = os.environ | {
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }
    environment["PYTHONWARNINGS"] = "ignore"  # of libraries that MLflow uses
    # Not a flag: all users of the machine can read flags.
    environment["MLFLOW_BACKEND_STORE_URI"] = tracking_uri(root)
    environment["MLFLOW_LOGGING_LEVEL"] = "WARNING"
    # The server has a session of its own. Otherwise the terminal would send Ctrl-C to the server, too.
    server = subprocess.Popen(
        command,
        env=environment,
        cwd=artifacts(root).parent,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        while server.poll() is None and not _answers(port):
            time.sleep(0.2)
        yield server
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(server.pid, number)
                server.wait(timeout=10)


def _answers(port: int) -> bool:
    with suppress(OSError), DIRECT.open(f"http://{HOST}:{port}/health", timeout=5):
        return True
    return False
