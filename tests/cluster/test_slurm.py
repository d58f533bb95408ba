"""Sweeps through the Slurm that `make cluster-up` starts: real daemons, real jobs, real cells."""

import json
import re
import signal

import pytest

from cluster import servers
from cluster.conftest import OWN_LOCKS

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]
SLURM = ("executor=slurm", "tracking=none")
TWO_NODES = ("executor.slurm.nodes=2", OWN_LOCKS)
LONG = "window.measure_s=2"  # seconds in which a cell can be killed


def is_whole(commands, name, num):
    """Each cell has one record, which is ok, and one line in the plan; nothing is left of the jobs."""
    records = commands.records(name)
    assert [record["status"] for record in records] == ["ok"] * num
    assert len({record["cell_id"] for record in records}) == num
    plan = json.loads((commands.folder / "runs" / name / "plan.json").read_text())
    assert {f"{cell['record']}.json" for cell in plan["cells"]} == set(commands.files(name))
    assert not (commands.folder / "runs" / name / ".jobs").exists()
    return records


def overlapping(records):
    """Pairs of records of one node whose cells ran at the same time."""
    spans = [(record["environment"]["node"]["name"], *record["measurement"]["steady_boot_s"]) for record in records]
    return [(a, b) for a in spans for b in spans if a is not b and a[0] == b[0] and a[1] < b[1] < a[2]]


def test_a_sweep_over_two_nodes_has_the_records_and_the_plan_of_a_local_one(commands):
    words = ["batch_size=1,2,4", "precision=fp32,bf16"]
    text = commands.sweep(*SLURM, *TWO_NODES, *words, "out=runs/spread")
    records = is_whole(commands, "spread", 6)
    assert {record["environment"]["node"]["name"] for record in records} == set(servers.NODES)
    assert overlapping(records) == []
    assert "6 ok" in text
    assert "[6/6]" in text
    commands.sweep("tracking=none", *words, "out=runs/local")
    paths = [commands.folder / f"runs/{name}/plan.json" for name in ("spread", "local")]
    spread, local = (json.loads(path.read_text()) for path in paths)
    assert [cell["label"] for cell in spread["cells"]] == [cell["label"] for cell in local["cells"]]
    assert [record["label"] for record in records] == [record["label"] for record in commands.records("local")]
    assert all("node" not in record["environment"] for record in commands.records("local"))
    again = commands.sweep(*SLURM, *TWO_NODES, *words, "out=runs/spread")
    assert "6 of 6 cells have their record already" in again
    assert " of Slurm (" not in again


def test_ctrl_c_cancels_the_jobs_and_keeps_what_was_measured(commands):
    words = [*SLURM, "batch_size=1,2,4,8", LONG, "out=runs/cut"]
    process = commands.start(*words)
    commands.until_mid_cell("cut")
    process.send_signal(signal.SIGINT)
    text = commands.end(process, status=130)
    assert "Cancelling 1 job" in text
    commands.until(lambda: not commands.jobs())
    kept = commands.records("cut")
    assert 1 <= len(kept) < 4
    assert all(record["status"] == "ok" for record in kept)  # what was cut off is no killed cell
    commands.sweep(*words)
    records = is_whole(commands, "cut", 4)
    assert [record for record in records if record["cell_id"] in {one["cell_id"] for one in kept}] == kept


@pytest.mark.parametrize("command", ["scontrol requeue", "scancel --signal=USR2"], ids=["requeued", "preempted"])
def test_a_job_that_is_requeued_in_mid_cell_goes_on_after_its_own_records(commands, command):
    """By Slurm or, after the signal that comes before the time limit and preemption, by submitit."""
    process = commands.start(*SLURM, "batch_size=1,2,4", LONG, "out=runs/requeued")
    commands.until_mid_cell("requeued")
    (job,) = commands.jobs()
    before = commands.files("requeued")
    commands.run(*command.split(), job)
    commands.until(lambda: commands.jobs()[job][0] == "PENDING")
    text = commands.end(process)
    records = is_whole(commands, "requeued", 3)
    assert {record["environment"]["node"]["job"] for record in records} == {job}
    assert before.items() <= commands.files("requeued").items()
    assert "3 ok" in text


def test_a_killed_controller_that_is_started_again_waits_for_the_jobs_that_run(commands):
    words = [*SLURM, "batch_size=1,2,4", LONG, "out=runs/orphaned"]
    first = commands.start(*words)
    commands.until_mid_cell("orphaned")
    first.kill()
    first.wait()
    jobs = commands.jobs()
    commands.run("scontrol", "suspend", *jobs)  # it would end before a controller has started on a slow machine
    second = commands.start(*words)
    try:
        commands.until(lambda: "Waiting for 1 job of an earlier start" in second.log.read_text())
    finally:
        commands.run("scontrol", "resume", *jobs)
    text = commands.end(second)
    assert " of Slurm (" not in text
    records = is_whole(commands, "orphaned", 3)
    assert {record["environment"]["node"]["job"] for record in records} == set(jobs)


def test_the_cells_of_a_job_that_was_killed_for_good_come_with_the_next_start(commands):
    words = [*SLURM, *TWO_NODES, "batch_size=1,2,4,8,16,32", LONG, "out=runs/left"]
    process = commands.start(*words)
    commands.until_mid_cell("left")
    commands.until(lambda: len(commands.jobs()) == 2)
    job = min(commands.jobs())
    commands.run("scancel", "--signal=KILL", "--full", job)
    commands.run("scancel", job)
    text = commands.end(process, status=2)
    assert re.search(r"\d of 6 cells have no record: their jobs ended early", text), text
    commands.sweep(*words)
    is_whole(commands, "left", 6)


def test_a_request_that_slurm_refuses_is_a_message(commands):
    text = commands.sweep(*SLURM, "batch_size=1", "executor.slurm.partition=none", "out=runs/no", status=2)
    problem = "sbatch: error: Batch job submission failed: Invalid partition name specified"
    assert f"executor=slurm: Slurm refuses the job: {problem}" in text
    assert "Traceback" not in text
