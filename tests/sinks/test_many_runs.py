"""Deliveries that are interrupted: each record gets one run, whatever was killed, and whoever made the store."""

import dataclasses
import os
import random
import subprocess

import pytest

from accelbench.answers.process import Process
from accelbench.schema import record as records
from accelbench.schema.vocab import Precision
from accelbench.sinks import mlflow_fields as view
from accelbench.sinks.delivery import Delivery, sync
from accelbench.sinks.mlflow_fields import AGGREGATE, CELL_KEY, KIND
from tests.sinks.samples import cell, record
from tests.sinks.stores import SYNC, client_of, split, started


def processes(num, first=0):
    """Processes of one cell in fp32."""
    return [record(dataclasses.replace(cell(), repeat=first + i), number=first + i) for i in range(num)]


def write(root, made):
    for one in made:
        records.write(one, root / "runs" / "mine")


def keys(runs):
    return sorted((run.data.tags["record"], run.data.tags["started_at"]) for run in runs)


def test_the_speed_of_a_cell_is_a_run_that_is_updated_and_no_measurement(root):
    write(root, [*processes(3), record(cell(precision=Precision.bf16), number=50)])
    assert sync(root, [root / "runs"]).num_delivered == 4
    measured, (mean,) = split(root)
    assert len(measured) == 4
    rates = [run.data.metrics[view.SPEED] for run in measured if run.data.params["precision"] == "fp32"]
    metrics = mean.data.metrics
    assert metrics["cell/num_processes"] == 3
    assert metrics["cell/samples_per_s"] == pytest.approx(sorted(rates)[1])
    assert metrics["cell/samples_per_s_low"] < metrics["cell/samples_per_s"] < metrics["cell/samples_per_s_high"]
    assert view.SPEED not in metrics
    assert view.SHARE not in metrics
    assert mean.data.params["model"] == "cnn"

    write(root, processes(2, first=3))
    again = sync(root, [root / "runs"])
    assert (again.num_delivered, again.num_already_there) == (2, 4)
    measured, (updated,) = split(root)
    assert len(measured) == 6
    assert updated.data.metrics["cell/num_processes"] == 5

    with Delivery("mlflow", root) as delivery:  # a sweep that knows fewer processes takes none back
        for one in processes(2):
            delivery.add(one)
        delivery.finish()
        delivery.relate(map(Process.of, processes(2)))
    assert sync(root, [root / "runs"]).num_delivered == 0
    measured, (mean,) = split(root)
    assert (len(measured), mean.data.metrics["cell/num_processes"]) == (6, 5)


def test_means_that_a_killed_process_left_are_made_whole_and_not_twice(root):
    write(root, processes(3))
    sync(root, [root / "runs"])
    _, (mean,) = split(root)
    client = client_of(root)
    client.set_terminated(mean.info.run_id, "RUNNING")
    client.create_run(mean.info.experiment_id, tags={KIND: AGGREGATE, CELL_KEY: mean.data.tags[CELL_KEY]})
    sync(root, [root / "runs"])
    _, (mean,) = split(root)
    assert (mean.info.status, mean.data.metrics["cell/num_processes"]) == ("FINISHED", 3)


@pytest.mark.faults
def test_each_record_gets_one_run_however_often_a_sync_is_killed(tmp_path):
    seed = int(os.environ.get("FAULTS_SEED", random.randrange(10**6)))
    print(f"FAULTS_SEED={seed}")
    dice = random.Random(seed)
    made = processes(100)
    write(tmp_path, made)
    num_kills = 0
    for _ in range(8):
        running = started(SYNC, tmp_path, stderr=subprocess.DEVNULL)
        try:
            running.wait(timeout=dice.uniform(1, 3))
            break
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()
            num_kills += 1
    assert num_kills >= 2
    done = sync(tmp_path, [tmp_path / "runs"])
    assert done.num_delivered + done.num_already_there == len(made)
    measured, (mean,) = split(tmp_path)
    assert keys(measured) == sorted((one.name, one.started_at) for one in made)
    assert {run.info.status for run in measured} == {"FINISHED"}
    assert mean.data.metrics["cell/num_processes"] == len(made)
