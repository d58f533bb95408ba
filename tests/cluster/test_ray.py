"""Sweeps through a real Ray on this machine's loopback."""

import signal

import pytest

from accelbench.cluster.controller import engine_of
from accelbench.errors import UserError
from accelbench.settings.config import Executor, ExecutorConfig, RayConfig

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]
RAY = ("executor=ray", "executor.ray.address=local")


def test_a_sweep_has_a_record_for_each_cell_and_listens_on_the_loopback_only(commands):
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


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_the_tasks_end_with_their_controller_and_the_next_start_goes_on(commands, end):
    words = [*RAY, "batch_size=1,2,4"]
    process = commands.start_and_measure(*words)
    finished = commands.files()
    process.send_signal(end)
    assert process.wait(60) in (130, -signal.SIGKILL)
    commands.until(lambda: "ray::accelbench" not in commands.run("ps", "-eo", "args"))
    assert "3 ok" in commands.sweep(*words, "window.measure_s=2")
    commands.records(3)
    assert finished.items() <= commands.files().items()


@pytest.mark.usefixtures("variables")
def test_one_process_can_use_ray_again_and_without_an_address_starts_none():
    local = ExecutorConfig(name=Executor.ray, ray=RayConfig(address="local"))
    for _ in range(2):
        engine_of(local).close()
    with pytest.raises(UserError, match=r"executor\.ray\.address=auto: no Ray cluster at this address"):
        engine_of(ExecutorConfig(name=Executor.ray))
