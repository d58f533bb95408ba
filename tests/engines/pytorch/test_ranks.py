"""Cells on several devices: real processes on the CPU, joined by gloo."""

import shutil

import pytest
import torch

import rank_faults
from accelbench.devices.cpu import usable_cores
from accelbench.engines.pytorch.backends import backend_for
from accelbench.engines.pytorch.ranks import RankReport, Ranks, joined
from accelbench.errors import UnsupportedError
from accelbench.isolation.hosts import Hosts
from accelbench.judging.verdict import judge
from accelbench.schema.cell import Device, Mode, Protocol, Status
from accelbench.schema.measurement import Observed
from engines import cells
from engines.cells import MLP, cell_to_goal
from fakes import make_cell

FIT = cells.FIT | {"epochs": 2}


@pytest.fixture(scope="module")
def hosts():
    with Hosts(rank_faults.host) as running:
        yield running


@pytest.fixture
def run(hosts, digits):
    def run(folder=digits, **changes):
        return hosts.run(make_cell(**{"model": MLP, "devices": 2, **changes}), folder)

    return run


def test_training_on_two_devices_is_training_on_one(run, digits, tmp_path):
    folder = shutil.copytree(digits, tmp_path / "digits")
    one, two = (run(folder, suite="tell", devices=num, **FIT).measurement for num in (1, 2))
    assert (one.num_devices, two.num_devices) == (1, 2)
    assert [epoch.loss for epoch in two.epochs] == pytest.approx([epoch.loss for epoch in one.epochs], rel=1e-5)
    assert [epoch.num_samples for epoch in two.epochs] == [300, 300]
    assert two.epochs[-1].accuracy == one.epochs[-1].accuracy
    assert (two.evaluation.num_samples, two.evaluation.accuracy) == (90, one.evaluation.accuracy)
    assert two.evaluation.loss == pytest.approx(one.evaluation.loss, rel=1e-5)
    alone, first, second = (torch.load(folder / f"rank{name}.pt") for name in ("0of1", "0of2", "1of2"))
    for name, weights in alone.items():
        assert torch.equal(first[name], second[name])
        torch.testing.assert_close(first[name], weights, rtol=1e-5, atol=1e-6)


def test_two_ranks_decide_alike(hosts, digits):
    cells = [cell_to_goal(devices=num, target={"every": 0.5}) for num in (1, 2)]
    one, two = (hosts.run(cell, digits).measurement.target for cell in cells)
    assert two.hit == one.hit is not None
    values = [[evaluation.value for evaluation in training.evaluations] for training in (one, two)]
    assert values[1] == pytest.approx(values[0], abs=0.04)


TRAIN = {"mode": Mode.train}


@pytest.mark.parametrize(
    ("fault", "changes", "reason"),
    [
        ("not wrapped", TRAIN, "the devices' weights differ after training"),
        ("frozen weights", TRAIN, "the devices' weights differ after training"),
        ("other precision", {}, "the devices did not compute alike: cpu in fp32, cpu in bf16_mixed"),
        ("killed", TRAIN, "rank 1 of 2: killed by signal 9 (SIGKILL)"),
    ],
)
def test_what_goes_wrong_in_a_rank_is_named(run, fault, changes, reason):
    outcome = run(suite=fault, **changes)
    assert reason in (outcome.reason or judge(make_cell(devices=2, **changes), outcome.measurement))


@pytest.mark.parametrize(("mode", "protocol"), [(Mode.train, Protocol.window), (Mode.infer, Protocol.steps)])
def test_steps_count_the_whole_batch(run, mode, protocol):
    outcome = run(mode=mode, protocol=protocol, warmup=2, steps=12)
    measured = outcome.measurement
    assert outcome.status == Status.ok
    assert measured.operators
    assert all(block.num_samples == 32 * block.num_steps for block in measured.blocks)
    assert len(measured.latency_s) >= 6
    assert min(map(len, measured.breakdown.phases_s.values())) >= 3
    assert measured.threads == max(1, usable_cores() // 2)
    assert measured.peak_host_bytes <= outcome.system.peak_host_bytes


def test_a_process_knows_its_place_among_those_of_all_hosts(monkeypatch):
    for name, value in {"WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2", "RANK": "3", "LOCAL_RANK": "1"}.items():
        monkeypatch.setenv(name, value)
    ranks = Ranks(4)
    assert (ranks.part, ranks.local_rank, ranks.num_here, ranks.leads) == ((3, 4), 1, 2, False)
    assert backend_for(Device.gpu, 4, ranks).index == 1
    assert Ranks(1).part == (0, 1)
    for here, num in (("2", 2), ("3", 4)):
        monkeypatch.setenv("LOCAL_WORLD_SIZE", here)
        with pytest.raises(UnsupportedError, match=f"^devices={num}: .* 4 were started, {here} of them on this host"):
            Ranks(num)


def test_what_ranks_observed_is_joined():
    def report(peak, loss):
        observed = Observed(device="gpu", device_name="a GPU", precision="fp32", num_devices=1, threads=2, loss=loss)
        return RankReport(observed, {"peak_device_bytes": peak, "peak_host_bytes": 20}, weights="w")

    observed, resources = joined([report(10, 1.0), report(30, 2.0)])
    assert (observed.num_devices, observed.device_name, observed.loss) == (2, "a GPU", 1.5)
    assert resources == {"peak_device_bytes": 30, "peak_host_bytes": 40}
