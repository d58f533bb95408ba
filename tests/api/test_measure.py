import dataclasses
import random
import re
import threading
import time
from concurrent.futures import Future

import pytest
import torch
from torch import nn

import accelbench
from accelbench import InvalidError, UserError, Window
from honest.accidents import KeepsFeatures
from honest.networks import vectors

QUICK = Window(warmup_steps=3, warmup_s=0.02, measure_s=0.1, block_s=0.01, latency_s=0.1, latency_steps=30)
BATCH = torch.randn(4, 4)


def measured(*args, **named):
    return accelbench.measure(*args, window=QUICK, **named)


def test_a_network_of_a_notebook_is_measured_in_a_fresh_process_and_nothing_changes_here():
    class Net(nn.Module):  # in no module that another process could import
        def __init__(self):
            super().__init__()
            self.norm, self.drop, self.linear = nn.BatchNorm1d(16), nn.Dropout(), nn.Linear(16, 4)

        def forward(self, x):
            random.random()
            return self.linear(self.drop(self.norm(scale * x)))

    scale = 2
    net, batch = Net(), torch.randn(8, 16)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    states = random.getstate(), torch.get_rng_state().tolist()
    result = measured(net, batch, mode="train", loss=lambda output, batch: output.square().mean(), name="net")
    assert (result.precision, result.mode, result.samples) == ("fp32", "train", 8)
    assert (result.label, result.device, result.batch_size, result.is_ok) == ("net", "cpu", 8, True)
    assert repr(result).startswith("Result(net: ok, ")
    assert result.samples_per_s > 0
    assert len(result.raw.latency_s) > 1
    assert result.flops == 3 * 2 * 8 * 16 * 4  # of the output, and of the gradients of weights and inputs
    assert not any("isolated" in warning for warning in result.warnings)
    with pytest.raises(AttributeError, match="a result has no speed"):
        _ = result.speed
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert (random.getstate(), torch.get_rng_state().tolist()) == states


class Pending:
    """Stands in for an array of another framework, which is there some time after its launch."""

    def block_until_ready(self):
        time.sleep(0.005)


@dataclasses.dataclass
class Holds:
    value: object


@pytest.mark.parametrize("make", [lambda: time.sleep(0.005), lambda: {"a": [Pending()]}, lambda: Holds(Pending())])
def test_a_function_has_the_latency_of_its_sleep_or_of_what_another_framework_still_computes(make):
    result = measured(make, samples=2)
    assert 5 <= result.latency_p50_ms < 500
    assert 4 < result.samples_per_s <= 2 / 0.005
    assert (result.mode, result.precision, result.flops, result.mfu, result.row["precision"]) == (None,) * 5


async def awaited():
    return 1


def fails():
    raise KeyError("a bad layer")


LOCKED = nn.Linear(4, 4)
LOCKED.lock = threading.Lock()


class Upcasts(nn.Linear):
    def forward(self, x):
        return x.float() @ self.weight.float()


NOT_RUN = ", which has not run or may still run: call, await, "


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"device": "cuda"}, "device=cuda: unknown device. Choose from: cpu, gpu"),
        ({"precision": torch.float16}, "precision=torch.float16: unknown precision. Choose from: fp16"),
        ({"optimizer": torch.optim.SGD, "mode": "train"}, "unknown optimizer. Choose from: adam, adamw, sgd"),
        ({"mode": "train"}, "loss: mode='train', and only this mode, needs a loss"),
        ({"learning_rate": "high"}, "model.learning_rate: should be `float`, got `str`"),
        ({"batch": BATCH.numpy()}, "not a ndarray: torch.as_tensor\\(...\\) makes tensors"),
        ({"window": 5}, "measure: window: should be"),
        ({"model_or_function": measured}, "need an object of torch.nn.Module, such as Net\\(\\)"),
        ({"model_or_function": nn.Linear}, "need an object of torch.nn.Module, such as Net\\(\\)"),
        ({"model_or_function": nn.Linear(4, 4).bfloat16()}, "weights are torch.bfloat16"),
        ({"batch": torch.tensor(1.0)}, "measure: samples: should be `int` >= 1"),
        ({"batch": {"y": torch.ones(4, 4)}}, "batch: has y, but the network needs input"),
        ({"mode": "train", "loss": lambda output, _: output}, "loss: should return a scalar tensor"),
        ({"model_or_function": LOCKED}, "network: can't be pickled .*lock.*A network's class can be measured"),
        ({"model_or_function": KeepsFeatures(), "batch": vectors(4)}, "the output for a new batch differs"),
        ({"model_or_function": Upcasts(4, 4), "precision": "bf16"}, "asked for precision bf16, but"),
        # A result that shows that the work did not run is refused.
        ({"model_or_function": awaited, "batch": None}, f"coroutine{NOT_RUN}"),
        ({"model_or_function": lambda: {"a": [map(abs, [1]), 2]}, "batch": None}, f"map{NOT_RUN}"),
        ({"model_or_function": lambda: measured, "batch": None}, f"function{NOT_RUN}"),
        ({"model_or_function": lambda: [Future()], "batch": None}, f"Future{NOT_RUN}"),
        ({"model_or_function": lambda: threading.Thread(), "batch": None}, f"Thread{NOT_RUN}"),
        ({"model_or_function": fails, "batch": None}, r"^\S+test_measure.py:\d+: KeyError: 'a bad layer'\n"),
    ],
)
def test_a_mistake_names_the_argument_and_a_wrong_number_is_refused(arguments, message):
    with pytest.raises((UserError, InvalidError), match=message) as raised:
        accelbench.measure(**{"model_or_function": nn.Linear(4, 4), "batch": BATCH, "window": QUICK, **arguments})
    assert (raised.type is InvalidError) == bool(re.search("differs|asked for", message))
    if "bad layer" in message:
        assert "in fails" in raised.value.__notes__[0]


PARTS = {"a": torch.randn(6, 4), "b": torch.randn(6, 4)}


@pytest.mark.parametrize("batch", [tuple(PARTS.values()), {**PARTS, "label": torch.zeros(6)}])
def test_a_batch_is_a_tuple_or_a_mapping(batch):
    class Two(nn.Linear):  # a layer itself, whose output is no tensor
        def forward(self, a, b):
            return {"out": super().forward(a + b)}

    result = measured(Two(4, 2), batch)
    assert result.samples == 6
    assert [note for note in result.raw.notes if "label" in note] == result.raw.notes


@pytest.mark.slow
def test_a_compiled_network_is_compiled_by_its_process():
    assert measured(torch.compile(nn.Linear(4, 4)), BATCH).raw.num_compiles > 0


@pytest.mark.gpu
def test_a_batch_on_the_gpu_is_not_copied():
    net, batch = nn.Linear(16, 4), torch.randn(8, 16)
    on_host = measured(net, batch, "train", "gpu", loss=lambda output, _: output.sum())
    on_gpu = measured(net, batch.cuda(), device="gpu", precision="fp16")
    assert (on_host.device, on_gpu.device, on_gpu.precision) == ("gpu", "gpu", "fp16")
    assert on_host.raw.copy_in_s
    assert not on_gpu.raw.copy_in_s
    assert next(net.parameters()).device.type == "cpu"
    weights = torch.randn(256, 256, device="cuda")
    with pytest.raises(UserError, match="device='cpu': the function used the GPU"):
        measured(lambda: weights.add_(1))  # it only starts kernels
    assert measured(lambda: weights.add_(1), device="gpu").device == "gpu"
