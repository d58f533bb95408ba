import contextlib
import json
import os
import subprocess
import sys
import time

import pytest

from cluster import servers
from sweep.conftest import project, shared  # noqa: F401

WORDS = ["-m", "model=mlp", "data=random", "mode=infer", "breakdown_s=0"]
WORDS += ["window.latency_s=0.05", "window.measure_s=0.1"]
# The nodes are on one machine: with one lock for both, their jobs would take turns.
OWN_LOCKS = 'executor.slurm.setup=["export ACCELBENCH_LOCK=$SLURMD_NODENAME"]'
PATIENCE_S = 150.0


@pytest.fixture(scope="session")
def variables(request, tmp_path_factory):
    """The environment of the commands, with the servers' addresses and a cache of their own."""
    if not servers.STATE.exists():
        end = pytest.fail if request.config.getoption("markexpr") == "cluster" else pytest.skip
        end("these tests need the servers that `make cluster-up` starts")
    variables = json.loads(servers.STATE.read_text())["environment"]
    return {**os.environ, **variables, "XDG_CACHE_HOME": str(tmp_path_factory.mktemp("cache")), "NO_COLOR": "1"}


class Commands:
    """Runs accelbench and Slurm's commands in a folder."""

    def __init__(self, folder, variables):
        self.folder, self.variables = folder, dict(variables)
        self.started = []

    def start(self, *words):
        """Starts a sweep; returns its process."""
        command = [sys.executable, "-m", "accelbench.cli", *WORDS, *words]
        path = self.folder / f"log-{len(self.started)}"
        with path.open("w") as log:
            process = subprocess.Popen(command, cwd=self.folder, env=self.variables, stdout=log, stderr=log)
        process.log = path
        self.started.append(process)
        return process

    def end(self, process, status=0):
        """Waits for the end of a sweep; returns what it has printed."""
        ended_with = process.wait(PATIENCE_S)
        text = process.log.read_text()
        assert ended_with == status, text
        return text

    def sweep(self, *words, status=0):
        return self.end(self.start(*words), status)

    def run(self, *command):
        done = subprocess.run(command, cwd=self.folder, env=self.variables, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def files(self, name):
        """Name -> content of the records in runs/`name`."""
        return {path.name: path.read_bytes() for path in (self.folder / "runs" / name).glob("*-*.json")}

    def records(self, name):
        records = [json.loads(content) for content in self.files(name).values()]
        return sorted(records, key=lambda record: record["label"])

    def jobs(self):
        """Job -> its state and node, of all that have not ended."""
        lines = self.run("squeue", "--noheader", "--format=%i %T %N").splitlines()
        return {line.split()[0]: line.split()[1:] for line in lines}

    def until(self, condition):
        """Waits for it; returns what it gives."""
        deadline = time.monotonic() + PATIENCE_S
        while not (value := condition()):
            assert time.monotonic() < deadline, "".join(process.log.read_text() for process in self.started)
            time.sleep(0.1)
        return value

    def until_mid_cell(self, name):
        """Waits until a cell has its record and the next one is measured."""
        self.until(lambda: self.files(name))
        time.sleep(1.0)


@pytest.fixture
def commands(tmp_path, variables):
    made = Commands(tmp_path, variables)
    yield made
    for process in made.started:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        process.wait()
    with contextlib.suppress(AssertionError):
        made.run("bash", "-c", "scancel --me --signal=KILL --full; scancel --me; true")
        made.until(lambda: not made.jobs())
