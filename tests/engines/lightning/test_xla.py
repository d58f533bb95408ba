"""torch_xla's part of the engine, and XLA devices with one process each, as far as PJRT's CPU allows.

PJRT's CPU can't join processes (pytorch/xla#5342).
"""

import pytest

import xla_world
from accelbench.isolation.hosts import Hosts
from accelbench.schema.vocab import Device, Mode, Protocol, Status
from accelbench.schema.workload import ModelSpec
from fakes import SHORT, make_cell, needs

pytestmark = needs("torch_xla")

MULTIPLY = """
import torch, torch_xla
from accelbench.engines.lightning.backends import backend_for
{prepare}
product = torch.ones(4, 4, device=torch_xla.device()) @ torch.ones(4, 4, device=torch_xla.device())
print(torch_xla._XLAC._get_xla_tensors_hlo([product]))
"""


def hlo(printed, prepare: str) -> str:
    """What XLA is given to compile for a product of two fp32 matrices."""
    return "\n".join(printed(MULTIPLY.format(prepare=prepare)))


@pytest.mark.slow
def test_fp32_is_multiplied_in_fp32_where_a_tpu_would_cast_it_to_bf16(printed):
    assert "operand_precision={highest,highest}" not in hlo(printed, "")
    assert "operand_precision={highest,highest}" in hlo(printed, "backend_for('xla_cpu').prepare(allow_tf32=False)")


# Products of large matrices: after the wait, reading the result takes a copy's time and not theirs.
WAIT = """
import time, torch, torch_xla
from accelbench.engines.lightning.backends import backend_for
from accelbench.schema.vocab import Device
backend = backend_for(Device.xla_cpu, num_devices={num_devices})
backend.prepare(allow_tf32=False)
(large,) = backend.put((torch.randn(1280, 1280) / 36,))
for _ in range(3):
    start, product = time.perf_counter(), large
    for _ in range(6):
        product = product @ large
    backend.end_step()
    launched = time.perf_counter()
    backend.wait()
    waited = time.perf_counter()
    product.cpu()
    read = time.perf_counter()
print(launched - start, waited - launched, read - waited)
"""


@pytest.mark.slow
@pytest.mark.parametrize("num_devices", [1, 2])
def test_the_wait_is_for_what_was_launched(printed, num_devices):
    code, variables = WAIT.format(num_devices=num_devices), {"CPU_NUM_DEVICES": str(num_devices)}
    _, waited, read = map(float, printed(code, **variables)[0].split())
    assert waited > read  # the products were done by then


FALLBACK = """
import torch, torch_xla
from accelbench.engines.lightning.backends import backend_for
from accelbench.schema.vocab import Device
backend = backend_for(Device.xla_cpu)
values = torch.arange(4.0, device=torch_xla.device())
print((values + 1).sum().item(), backend.fallbacks())
torch.ops.aten.histc(values, bins=2)
print(backend.fallbacks())
"""


def test_an_operator_that_runs_on_the_cpu_instead_is_named(printed):
    before, after = printed(FALLBACK)
    assert before == "10.0 []"
    assert after == "['aten::histc']"


SEED = """
import torch, torch_xla
from accelbench.engines.lightning.backends import backend_for
from accelbench.schema.vocab import Device
backend = backend_for(Device.xla_cpu)
for number in (1, 2, 1):
    backend.seed(number)
    print(torch.rand(3, device=torch_xla.device()).tolist())
"""


def test_what_is_drawn_on_the_device_follows_from_the_seed(printed):
    first, other, again = printed(SEED)
    assert first == again != other


SPMD = """
import torch
from accelbench.engines.lightning.backends import backend_for, num_parts
from accelbench.errors import UnsupportedError
from accelbench.schema.vocab import Device
try:
    backend_for(Device.xla_cpu, num_devices=3).prepare(allow_tf32=False)
except UnsupportedError as error:
    print(error)
backend = backend_for(Device.xla_cpu, num_devices=2)
backend.prepare(allow_tf32=False)
images, labels = backend.put((torch.arange(24.0).reshape(4, 2, 3), torch.arange(4)))
print(backend.num_devices(), num_parts(labels), num_parts(torch.zeros(4, device=images.device)))
divided, whole = images * 2, backend.gather(images * 3)
backend.end_step()
print(num_parts(divided), num_parts(whole))
print(images.cpu().flatten().tolist() == list(range(24)), backend.put((images,))[0] is images)
"""


def test_a_batch_is_divided_among_all_devices_and_is_still_one(printed):
    refused, parts, gathered, whole = printed(SPMD, CPU_NUM_DEVICES="2")
    assert refused == "devices=3: SPMD divides a batch among all 2: use devices=2"
    assert parts == "2 2 1"
    assert gathered == "2 1"
    assert whole == "True True"


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
    measured = outcome.measurement
    assert (outcome.status, outcome.reason) == (Status.ok, None), outcome.error
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
