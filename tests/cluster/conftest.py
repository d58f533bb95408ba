import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sweep.conftest import project, shared  # noqa: F401

WORDS = ["-m", "model=mlp", "data=random", "mode=infer", "breakdown_s=0", "tracking=none"]
WORDS += ["window.latency_s=0.05", "window.measure_s=0.1"]
PATIENCE_S = 150.0
SLURM = Path("/var/tmp/accelbench-cluster/slurm.conf")


@pytest.fixture(scope="session")
def variables(request, tmp_path_factory):
    if not SLURM.exists():
        end = pytest.fail if request.config.getoption("markexpr") == "cluster" else pytest.skip
        end("these tests need the servers that `make cluster-up` starts")
    cache = str(tmp_path_factory.mktemp("cache"))
    return {**os.environ, "SLURM_CONF": str(SLURM), "XDG_CACHE_HOME": cache, "NO_COLOR": "1"}


class Commands:  # runs accelbench and Slurm's commands in a folder
    def __init__(self, folder, variables):
        self.folder, self.variables, self.out = folder, variables, folder / "runs" / "it"
        self.started = []

    def start(self, *words, out="runs/it"):
        log = self.folder / f"log-{len(self.started)}"
        command = [sys.executable, "-m", "accelbench.cli", *WORDS, f"out={out}", *words]
        with log.open("w") as file:
            process = subprocess.Popen(command, cwd=self.folder, env=self.variables, stdout=file, stderr=file)
        process.log = log
        self.started.append(process)
        return process

    def start_and_measure(self, *words):
        """Starts a sweep of long cells, and waits until one has its record and the next one is measured."""
        process = self.start("window.measure_s=2", *words)
        self.until(self.files)
        time.sleep(1.0)
        return process

    def end(self, process, status=0):
        ended_with = process.wait(PATIENCE_S)
        text = process.log.read_text()
        assert ended_with == status, text
        return text

    def sweep(self, *words, status=0, **options):
        return self.end(self.start(*words, **options), status)

    def run(self, *command):
        done = subprocess.run(command, cwd=self.folder, env=self.variables, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def files(self):
        return {path.name: path.read_bytes() for path in self.out.glob("*-*.json")}

    def records(self, num):
        """The records, if each of so many cells has one that is ok and nothing else is left of the sweep."""
        records = sorted(map(json.loads, self.files().values()), key=lambda record: record["label"])
        assert [record["status"] for record in records] == ["ok"] * num
        planned = json.loads((self.out / "plan.json").read_text())["cells"]
        assert {f"{cell['record']}.json" for cell in planned} == set(self.files())
        assert len({record["cell_id"] for record in records}) == num
        assert not (self.out / ".jobs").exists()
        return records

    def jobs(self):
        return dict(line.split() for line in self.run("squeue", "--noheader", "--format=%i %T").splitlines())

    def until(self, condition):
        deadline = time.monotonic() + PATIENCE_S
        while not (value := condition()):
            assert time.monotonic() < deadline, "".join(process.log.read_text() for process in self.started)
            time.sleep(0.1)
        return value


@pytest.fixture
def commands(tmp_path, variables):
    made = Commands(tmp_path, variables)
    yield made
    for process in made.started:
        process.kill()
        process.wait()
    with contextlib.suppress(AssertionError):
        made.run("bash", "-c", "scancel --me --signal=KILL --full; scancel --me; true")
        made.until(lambda: not made.jobs())
