"""XLA devices with one process each, as far as PJRT's CPU allows, which can't join processes (pytorch/xla#5342)."""

import pytest

import xla_world
from accelbench.isolation.hosts import Hosts
from accelbench.schema.vocab import Device, Mode, Protocol, Status
from accelbench.schema.workload import ModelSpec
from fakes import SHORT, make_cell, needs

pytestmark = needs("torch_xla")

MODEL = ModelSpec(name="mlp", args={"widths": [32, 32], "dropout": 0.0}, optimizer="sgd", learning_rate=0.05)


def cell(**changes):
    settings = {"model": MODEL, "device": Device.xla_cpu, "devices": 2, "xla_processes": True, "window": SHORT}
    return make_cell(**{**settings, "timeout_s": 240, **changes})


@pytest.fixture(scope="module")
def hosts():
    with Hosts(xla_world.host) as running:
        yield running


@pytest.mark.slow
def test_processes_that_pjrt_does_not_join_measure_nothing(digits):
    with Hosts() as hosts:
        outcome = hosts.run(cell(), digits)
    assert outcome.status == Status.skipped
    assert outcome.reason.endswith("PJRT joined 1 devices, and this process has 1, where devices=2 have a process each")


@pytest.mark.slow
@pytest.mark.parametrize("protocol", [Protocol.window, Protocol.fit])
def test_each_process_infers_its_share_of_the_batches(hosts, digits, protocol):
    outcome = hosts.run(cell(mode=Mode.infer, protocol=protocol), digits)
    assert (outcome.status, outcome.reason) == (Status.ok, None), outcome.error
    measured = outcome.measurement
    assert (measured.num_devices, measured.warnings, measured.fallbacks) == (2, [], [])
    assert all(block.num_samples == 32 * block.num_steps for block in measured.blocks)
    assert [epoch.num_samples for epoch in measured.epochs] == [90] * len(measured.epochs)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", [Protocol.window, Protocol.fit])
def test_weights_that_were_not_joined_are_found_out(hosts, digits, protocol):
    outcome = hosts.run(cell(mode=Mode.train, protocol=protocol, epochs=2, batch_size=50), digits)
    assert (outcome.status, outcome.reason) == (Status.invalid, "the devices' weights differ after training")
    assert (outcome.measurement.warnings, outcome.measurement.fallbacks) == ([], [])


PART_OF_A_HOST = """
from torch_xla._internal import tpu
from accelbench.engines.lightning.backends import XlaRank
from accelbench.engines.lightning.ranks import Ranks
from accelbench.schema.vocab import Device
from accelbench.errors import UnsupportedError

tpu.num_available_chips = lambda: 4
try:
    XlaRank(Device.tpu, Ranks(2)).prepare(allow_tf32=False)
except UnsupportedError as error:
    print(error)
"""


@pytest.mark.slow
def test_a_part_of_a_tpus_chips_is_refused_before_libtpu_waits_for_the_others(printed):
    ranks = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "RANK": "0", "LOCAL_RANK": "0"}
    (told,) = printed(PART_OF_A_HOST, PJRT_DEVICE="TPU", **ranks)
    assert "this host has 4 chips" in told
    assert told.endswith("for 2 processes: use devices=4 for each host")


# The device of a world of two, whose sum over all devices is of one alone: each gradient comes out halved.
REDUCE = """
import torch
import torch_xla
from torch_xla import runtime
from accelbench.engines.lightning.backends import XlaRank
from accelbench.engines.lightning.ranks import Ranks
from accelbench.schema.vocab import Device

backend = XlaRank(Device.xla_cpu, Ranks(1))
backend.prepare(allow_tf32=False)
runtime._WORLD_SIZE = 2
weights = torch.ones(3, device=torch_xla.device(), requires_grad=True)
optimizer = torch.optim.SGD([weights], lr=1.0)
(4 * weights).sum().backward()
backend.reduce_gradients(optimizer)
print("all-reduce" in torch_xla._XLAC._get_xla_tensors_hlo([weights.grad]))
print(weights.grad.cpu().tolist())
"""


@pytest.mark.slow
def test_xla_averages_the_gradients_within_the_step(printed):
    assert printed(REDUCE) == ["True", "[2.0, 2.0, 2.0]"]
