"""The engine on XLA's CPU devices, against the same cells on the CPU.

PJRT's client for the CPU can't join processes (pytorch/xla#5342), so `xla_world` fakes that.
"""

import dataclasses

import pytest

from accelbench.engines.pytorch import engine
from accelbench.schema.cell import Device, Mode, Precision, Scaling
from engines.cells import FIT, MLP, printed, ran
from fakes import SHORT, make_cell, needs
from marks import slow

pytestmark = needs("torch_xla")


def measured_on_xla(hosts, cell, folder):
    measurement = ran(hosts, dataclasses.replace(cell, device=Device.xla_cpu, timeout_s=240), folder)
    assert measurement.warnings == []  # later steps compile nothing
    return measurement


@pytest.mark.slow
@pytest.mark.parametrize(("precision", "devices"), [(Precision.fp64, 1), (Precision.fp32, 2)])
def test_xla_trains_to_the_cpus_losses_and_accuracy(hosts, digits, precision, devices):
    # The batch size divides the training set, because XLA drops a short last batch.
    cell = make_cell(**FIT | {"epochs": 3, "batch_size": 50, "precision": precision})
    measured = measured_on_xla(hosts, dataclasses.replace(cell, devices=devices), digits)
    expected = engine.run(cell, digits)
    assert (measured.device, measured.num_devices) == ("xla_cpu", devices)
    assert [e.loss for e in measured.epochs] == pytest.approx([e.loss for e in expected.epochs], rel=1e-4)
    assert measured.evaluation.num_samples == 90
    assert measured.evaluation.accuracy == pytest.approx(expected.evaluation.accuracy, abs=0.012)
    assert measured.evaluation.loss == pytest.approx(expected.evaluation.loss, rel=1e-3)
    assert min(measured.num_compiles, measured.compile_s) > 0
    assert measured.first_step_s > measured.epochs[-1].seconds / 6  # it compiles
    assert measured.work == expected.work


@pytest.mark.parametrize("mode", [Mode.train, slow(Mode.infer)])
@pytest.mark.parametrize(
    ("precision", "devices"), [(Precision.bf16, 1), slow(Precision.bf16_mixed, 1), slow(Precision.fp32, 2)]
)
def test_xla_runs_what_was_asked_and_compiles_nothing_in_the_steady_state(hosts, digits, precision, devices, mode):
    several = {"scaling": Scaling.weak, "devices": devices} if devices > 1 else {}
    cell = make_cell(model=MLP, precision=precision, mode=mode, window=SHORT, batch_size=64, **several)
    measured = measured_on_xla(hosts, cell, digits)
    assert (measured.precision, measured.num_devices, measured.fallbacks) == (precision, devices, [])
    assert all(block.num_samples == 64 * block.num_steps for block in measured.blocks)
    assert measured.operators == []


# In processes of their own, since importing torch_xla replaces parts of torch.nn.

IMPORTS = """
import os, time, torch, torch_xla, types
from torch_xla import runtime
from accelbench.engines.pytorch.backends import Xla, backend_for, num_parts
from accelbench.engines.pytorch.ranks import Ranks
from accelbench.schema.cell import Device
backend = backend_for(Device.xla_cpu, num_devices=int(os.environ["CPU_NUM_DEVICES"]))
backend.prepare(allow_tf32=False)
"""
SPMD = """
images, labels = backend.put((torch.arange(24.0).reshape(4, 2, 3), torch.arange(4)))
print(backend.num_devices, num_parts(labels), num_parts(torch.zeros(4, device=images.device)))
divided, whole = images * 2, backend.gather(images * 3)
backend.end_step()
print(num_parts(divided), num_parts(whole))
print(images.cpu().flatten().tolist() == list(range(24)), backend.put((images,))[0] is images)
values = torch.arange(4.0, device=torch_xla.device())
print((values + 1).sum().item(), backend.fallbacks())
torch.ops.aten.histc(values, bins=2)
print(backend.fallbacks())
for number in (1, 2, 1):
    backend.seed(number)
    print(torch.rand(3, device=torch_xla.device()).tolist())
(large,) = backend.put((torch.randn(1280, 1280) / 36,))
for _ in range(3):
    product = large
    for _ in range(6):
        product = product @ large
    backend.end_step()
    times = [time.perf_counter()]
    for waits in (backend.wait, product.cpu):
        waits()
        times.append(time.perf_counter())
print(times[1] - times[0] > times[2] - times[1])
backend.runtime = types.SimpleNamespace(device_type=lambda: "TPU")
print(backend.ran_on("xla"), backend.device_name(), backend.peak_memory_bytes())
"""


@pytest.mark.slow
def test_a_batch_is_divided_among_all_devices_which_are_waited_for_and_fallbacks_are_named():
    found = printed("-c", IMPORTS + SPMD, PJRT_DEVICE="CPU", CPU_NUM_DEVICES="2")
    parts, gathered, whole, before, after, first, other, again, waits, tpus = found
    assert (parts, gathered, whole) == ("2 2 1", "2 1", "True True")
    assert (before, after) == ("10.0 []", "['aten::histc']")
    assert first == again != other  # the seed decides what is drawn
    assert waits == "True"  # after the wait, reading the result takes only the time of a copy
    assert tpus == "tpu None None"  # several TPUs as one have no name


# At the end, one device believes to be one of two. The sum has only its own gradient, so the mean is half of it.
ONE = """
network = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
network[1].weight = network[0].weight
network.append(torch.nn.utils.weight_norm(torch.nn.Linear(3, 3)))
backend.place(network)
print({weight.device.type for weight in network.parameters()}, network[1].weight is network[0].weight)
backend = Xla(ranks=Ranks(1))
runtime._WORLD_SIZE = 2
weights = torch.ones(3, device=torch_xla.device(), requires_grad=True)
(4 * weights).sum().backward()
backend.reduce_gradients(torch.optim.SGD([weights], lr=1.0))
print("all-reduce" in torch_xla._XLAC._get_xla_tensors_hlo([weights.grad]), weights.grad.cpu().tolist())
"""


def test_a_network_on_xla_shares_its_weights_and_may_hold_references_and_gradients_are_averaged_within_the_step():
    found = printed("-c", IMPORTS + ONE, PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
    assert found == ["{'xla'} True", "True [2.0, 2.0, 2.0]"]
