"""Sweeps through the Slurm that `make cluster-up` starts, and through Ray: real daemons, real jobs, real cells."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from accelbench.cluster.controller import engine_of
from accelbench.errors import UserError
from accelbench.settings.config import Executor, ExecutorConfig, RayConfig

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]
SLURM = "executor=slurm"
RAY = ["executor=ray", "executor.ray.address=local"]
# The nodes are on one machine: with one lock for both, their jobs would take turns.
TWO_NODES = (SLURM, "executor.slurm.nodes=2", 'executor.slurm.setup=["export ACCELBENCH_LOCK=$SLURMD_NODENAME"]')
WORDS = ["-m", "model=mlp", "data=random", "mode=infer", "breakdown_s=0", "tracking=none"]
WORDS += ["window.latency_s=0.05", "window.measure_s=0.1"]
PATIENCE_S = 150.0
CONF = Path("/var/tmp/accelbench-cluster/slurm.conf")


@pytest.fixture(scope="session")
def variables(request, tmp_path_factory):
    if not CONF.exists():
        end = pytest.fail if request.config.getoption("markexpr") == "cluster" else pytest.skip
        end("these tests need the servers that `make cluster-up` starts")
    cache = str(tmp_path_factory.mktemp("cache"))
    return {**os.environ, "SLURM_CONF": str(CONF), "XDG_CACHE_HOME": cache, "NO_COLOR": "1"}


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


def nodes_of(records, name="name"):
    return {record["environment"]["node"][name] for record in records}


def overlapping(records):
    """Pairs of records of one node whose cells ran at the same time."""
    spans = [(record["environment"]["node"]["name"], *record["measurement"]["steady_boot_s"]) for record in records]
    return [(a, b) for a in spans for b in spans if a is not b and a[0] == b[0] and a[1] < b[1] < a[2]]


def test_a_sweep_over_two_nodes_has_the_records_and_the_plan_of_a_local_one(commands):
    words = ["batch_size=1,2,4", "precision=fp32,bf16"]
    text = commands.sweep(*TWO_NODES, *words)
    assert "6 ok" in text
    assert "[6/6]" in text
    records = commands.records(6)
    assert nodes_of(records) == {"node1", "node2"}
    assert overlapping(records) == []
    commands.sweep(*words, out="runs/local")
    spread, local = (json.loads((commands.folder / f"runs/{name}/plan.json").read_text()) for name in ("it", "local"))
    assert [cell["label"] for cell in spread["cells"]] == [cell["label"] for cell in local["cells"]]
    again = commands.sweep(*TWO_NODES, *words)
    assert "6 of 6 cells have their record already" in again
    assert " of Slurm (" not in again


def test_a_sweep_over_ray_has_a_record_for_each_cell_and_listens_on_the_loopback_only(commands):
    words = [*RAY, "batch_size=1,2", "precision=fp32,bf16"]
    process = commands.start(*words)
    commands.until(commands.files)
    sockets = [line.split() for line in commands.run("ss", "-Hltnp").splitlines()]
    of_ray = [words[3] for words in sockets if any(name in words[-1] for name in ("gcs_server", "raylet", "ray::"))]
    assert "4 ok" in commands.end(process)
    assert of_ray
    assert {address.rpartition(":")[0] for address in of_ray} <= {"127.0.0.1", "[::1]", "[::ffff:127.0.0.1]"}
    assert all("OMP_NUM_THREADS" not in record["environment"]["variables"] for record in commands.records(4))
    assert "4 of 4 cells have their record already" in commands.sweep(*words)


@pytest.mark.parametrize(("words", "end"), [([SLURM], signal.SIGINT), (RAY, signal.SIGINT), (RAY, signal.SIGKILL)])
def test_the_jobs_end_with_their_controller_and_the_next_start_goes_on(commands, words, end):
    process = commands.start_and_measure(*words, "batch_size=1,2,4,8")
    process.send_signal(end)
    assert process.wait(60) == (130 if end == signal.SIGINT else -end)
    assert end == signal.SIGKILL or "Cancelling " in process.log.read_text()
    commands.until(lambda: not commands.jobs() and "ray::accelbench" not in commands.run("ps", "-eo", "args"))
    kept = commands.files()
    assert 1 <= len(kept) < 4
    assert all(json.loads(content)["status"] == "ok" for content in kept.values())  # what was cut off is no killed cell
    commands.sweep(*words, "batch_size=1,2,4,8", "window.measure_s=2")
    commands.records(4)
    assert kept.items() <= commands.files().items()


@pytest.mark.parametrize("command", ["scontrol requeue", "scancel --signal=USR2"], ids=["requeued", "preempted"])
def test_a_job_that_is_requeued_in_mid_cell_goes_on_after_its_own_records(commands, command):
    """By Slurm or, after the signal that comes before the time limit and preemption, by submitit."""
    process = commands.start_and_measure(SLURM, "batch_size=1,2,4")
    (job,) = commands.jobs()
    before = commands.files()
    commands.run(*command.split(), job)
    commands.until(lambda: commands.jobs()[job] == "PENDING")
    assert "3 ok" in commands.end(process)
    assert nodes_of(commands.records(3), "job") == {job}
    assert before.items() <= commands.files().items()


def test_a_killed_controller_that_is_started_again_waits_for_the_jobs_that_run(commands):
    words = [SLURM, "batch_size=1,2,4"]
    first = commands.start_and_measure(*words)
    first.kill()
    jobs = commands.jobs()
    commands.run("scontrol", "suspend", *jobs)  # it would end before a controller has started on a slow machine
    second = commands.start(*words, "window.measure_s=2")
    try:
        commands.until(lambda: "Waiting for 1 job of an earlier start" in second.log.read_text())
    finally:
        commands.run("scontrol", "resume", *jobs)
    assert " of Slurm (" not in commands.end(second)
    assert nodes_of(commands.records(3), "job") == set(jobs)


def test_the_cells_of_a_job_that_was_killed_for_good_come_with_the_next_start(commands):
    words = [*TWO_NODES, "batch_size=1,2,4,8,16,32"]
    process = commands.start_and_measure(*words)
    commands.until(lambda: len(commands.jobs()) == 2)
    job = min(commands.jobs())
    commands.run("scancel", "--signal=KILL", "--full", job)
    commands.run("scancel", job)
    text = commands.end(process, status=2)
    assert re.search(r"\d of 6 cells have no record: their jobs ended early", text), text
    commands.sweep(*words, "window.measure_s=2")
    commands.records(6)


def test_a_request_that_slurm_refuses_is_a_message(commands):
    text = commands.sweep(SLURM, "batch_size=1", "executor.slurm.partition=none", status=2)
    problem = "sbatch: error: Batch job submission failed: Invalid partition name specified"
    assert f"executor=slurm: Slurm refuses the job: {problem}" in text
    assert "Traceback" not in text


@pytest.mark.usefixtures("variables")
def test_one_process_can_use_ray_again_and_without_an_address_starts_none():
    local = ExecutorConfig(name=Executor.ray, ray=RayConfig(address="local"))
    for _ in range(2):
        engine_of(local).close()
    with pytest.raises(UserError, match=r"executor\.ray\.address=auto: no Ray cluster at this address"):
        engine_of(ExecutorConfig(name=Executor.ray))
