"""Sweeps through the Slurm that `make cluster-up` starts: real daemons, real jobs, real cells."""

import json
import re
import signal

import pytest

from cluster import servers

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]
SLURM = "executor=slurm"
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
    assert nodes_of(records) == set(servers.NODES)
    assert overlapping(records) == []
    commands.sweep(*words, out="runs/local")
    spread, local = (json.loads((commands.folder / f"runs/{name}/plan.json").read_text()) for name in ("it", "local"))
    assert [cell["label"] for cell in spread["cells"]] == [cell["label"] for cell in local["cells"]]
    again = commands.sweep(*TWO_NODES, *words)
    assert "6 of 6 cells have their record already" in again
    assert " of Slurm (" not in again


def test_ctrl_c_cancels_the_jobs_and_keeps_what_was_measured(commands):
    words = [SLURM, "batch_size=1,2,4,8"]
    process = commands.start_and_measure(*words)
    process.send_signal(signal.SIGINT)
    assert "Cancelling 1 job" in commands.end(process, status=130)
    commands.until(lambda: not commands.jobs())
    kept = commands.files()
    assert 1 <= len(kept) < 4
    assert all(json.loads(content)["status"] == "ok" for content in kept.values())  # what was cut off is no killed cell
    commands.sweep(*words, "window.measure_s=2")
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
