"""Sweeps through the Slurm that `make cluster-up` starts, and through Ray: real daemons, real jobs, real cells."""

import json
import re
import signal

import pytest

from accelbench.cluster.controller import engine_of
from accelbench.errors import UserError
from accelbench.settings.config import Executor, ExecutorConfig, RayConfig

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]
SLURM = "executor=slurm"
RAY = ["executor=ray", "executor.ray.address=local"]
# The nodes are on one machine: with one lock for both, their jobs would take turns.
TWO_NODES = (SLURM, "executor.slurm.nodes=2", 'executor.slurm.setup=["export ACCELBENCH_LOCK=$SLURMD_NODENAME"]')


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
