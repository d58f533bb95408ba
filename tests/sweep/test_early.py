from contextlib import nullcontext

import pytest

from accelbench import lock
from accelbench.engines.registry import host_spec
from accelbench.isolation.hosts import Hosts
from accelbench.settings.compose import one_cell
from accelbench.sweep import early
from fakes import faulty_host, make_project


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(make_project(tmp_path))
    monkeypatch.setattr("sys.argv", ["accelbench"])
    for name in ("HYDRA_FULL_ERROR", "ACCELBENCH_SCRATCH"):  # set by `compose`: to be put back
        monkeypatch.setenv(name, "")


@pytest.mark.parametrize(
    "words", ["", "model=cnn batch_size=64", "device=cpu engine=lightning precision=bf16 mode=infer devices=2"]
)
def test_the_guessed_host_is_the_one_that_the_cell_needs(project, words):
    cell, _ = one_cell(words)
    assert host_spec(early.guess(words.split())).key == host_spec(cell).key


@pytest.mark.parametrize(
    "words",
    [
        "device=gpu",
        "-m device=cpu,gpu",
        "engine=keras",
        "suite=mnist_networks",
        "model=timm",
        "-m model=cnn,timm",
        "executor=slurm device=cpu",
    ],
)
def test_of_words_that_may_need_another_host_none_is_guessed(words):
    assert early.guess(words.split()) is None


def started(monkeypatch, words):
    monkeypatch.setattr(early, "Hosts", lambda: Hosts(faulty_host))
    with early.hosts(words) as hosts:
        processes = [host.process for host in hosts._hosts.values()]
    assert all(process.returncode is not None for process in processes)
    return len(processes)


@pytest.mark.parametrize(("is_measuring", "counters", "num"), [(False, {}, 1), (True, {}, 0), (False, {"cpu": 1}, 0)])
def test_a_host_starts_unless_it_would_disturb_a_measurement(monkeypatch, is_measuring, counters, num):
    monkeypatch.setattr(early.energy_counters, "counters", lambda num_gpus: counters)
    with lock.hold_measuring(print) if is_measuring else nullcontext():
        assert started(monkeypatch, ["model=cnn"]) == num
        assert started(monkeypatch, ["device=gpu"]) == 0
