import contextlib
import dataclasses
import os
import random
import re
import threading
import time
from concurrent.futures import Future
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.modules import module
from torch.nn.parameter import is_lazy

import accelbench
from accelbench import InvalidError, UserError, Window
from marks import slow

# The older settings of fp32, which the tests read, warn.
pytestmark = pytest.mark.filterwarnings("ignore:Please use the new API settings")
QUICK = Window(warmup_steps=3, warmup_s=0.02, measure_s=0.1, block_s=0.01, latency_s=0.1, latency_steps=30)
BATCH = torch.randn(4, 4)


def measured(*args, **named):
    return accelbench.measure(*args, window=QUICK, **named)


class Net(nn.Module):
    """Uses each thing that a measurement might leave changed: buffers, the random generators, its mode."""

    def __init__(self):
        super().__init__()
        self.norm, self.drop, self.linear = nn.BatchNorm1d(16), nn.Dropout(), nn.Linear(16, 4)

    def forward(self, x):
        random.random()
        np.random.random()
        return self.linear(self.drop(self.norm(x)))


def state_of(net, batch):
    """What has to be as before: the network, the batch, and what PyTorch and the process have globally."""
    backends, parameters = torch.backends, list(net.parameters())
    return {
        "tensors": [tensor.clone() for tensor in [*net.state_dict().values(), batch]],
        "gradients": [None if each.grad is None else each.grad.clone() for each in parameters],
        "places": [(each.requires_grad, each.dtype, each.device, each.data_ptr()) for each in parameters],
        "modules": [(module.training, len(module._forward_hooks)) for module in net.modules()],
        "generators": (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state()),
        "threads": torch.get_num_threads(),
        "default": torch.get_default_dtype(),
        "modes": (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu")),
        "autocast": torch.get_autocast_dtype("cpu"),
        "cudnn": backends.cudnn.benchmark,
        "fp32": [each.fp32_precision for each in (backends.mkldnn.matmul, backends.cudnn.conv, backends.cuda.matmul)],
        "matmul": torch.get_float32_matmul_precision(),
    }


def assert_equal(one, other):
    for before, after in zip(one.pop("tensors"), other.pop("tensors"), strict=True):
        torch.testing.assert_close(after, before, rtol=0, atol=0)
    assert repr(other) == repr(one)


@pytest.fixture
def unusual():
    """A process with other settings than the usual ones; the network has gradients and a frozen layer."""
    torch.manual_seed(3)
    net, batch = Net(), torch.randn(8, 16)
    net(batch).sum().backward()
    net.norm.requires_grad_(False)
    net.norm.eval()
    torch.set_default_dtype(torch.float64)
    matmul, benchmark = torch.get_float32_matmul_precision(), torch.backends.cudnn.benchmark
    torch.set_float32_matmul_precision("medium")
    torch.backends.cudnn.benchmark = True
    yield net, batch
    torch.set_default_dtype(torch.float32)
    torch.set_float32_matmul_precision(matmul)
    torch.backends.cudnn.benchmark = benchmark


@pytest.mark.parametrize(
    "asked",
    [{}, slow({"precision": "bf16_mixed"}), {"mode": "train", "loss": lambda output, batch: output.square().mean()}],
)
def test_the_network_and_the_process_are_as_before(unusual, asked):
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
        before = state_of(*unusual)
        found = measured(*unusual, **asked)
        after = state_of(*unusual)
    assert found.precision == asked.get("precision", "fp32")
    assert found.samples_per_s > 0
    assert_equal(before, after)


@pytest.mark.parametrize("error", [RuntimeError("broken"), KeyboardInterrupt()])
def test_all_is_as_before_after_an_error_or_an_interrupt(unusual, error):
    losses = iter([0.0] * 5)

    def loss(output, batch):
        if next(losses, None) is None:
            raise error
        return output.square().mean()

    before = state_of(*unusual)
    with pytest.raises(type(error)):
        measured(*unusual, "train", precision="bf16", loss=loss)
    assert_equal(before, state_of(*unusual))


def test_neither_a_hook_nor_a_seed_stays_in_the_process(unusual, monkeypatch):
    monkeypatch.delenv("PL_GLOBAL_SEED", raising=False)
    measured(*unusual)
    monkeypatch.setattr(unusual[0], "forward", None)
    with pytest.raises(TypeError):
        measured(*unusual)
    assert "PL_GLOBAL_SEED" not in os.environ
    assert not module._global_forward_hooks


def test_a_function_that_sleeps_has_the_latency_of_its_sleep():
    slept_s = []  # on a busy machine a sleep takes longer

    def sleep():
        start = time.perf_counter()
        time.sleep(0.005)
        slept_s.append(time.perf_counter() - start)

    found = measured(sleep, samples=2)
    assert 5 <= found.latency_p50_ms < 1e3 * max(slept_s)
    assert 2 / max(slept_s) < found.samples_per_s <= 2 / 0.005
    assert (found.mode, found.precision, found.flops, found.mfu, found.row["precision"]) == (None,) * 5


async def awaited():
    return 1


@contextlib.contextmanager
def entered():
    yield 1


class Lazy:
    def __dask_graph__(self):
        return {}


class OnGpu:
    """As an array of CuPy is."""

    __array__, device = None, "<CUDA Device 0>"


def forked():
    return torch.jit.fork(torch.add, BATCH, 1)


def test_lazy_layers_of_a_network_that_never_ran_get_their_weights():
    lazy = nn.Sequential(nn.Flatten(), nn.LazyLinear(4))
    assert measured(lazy, torch.ones(8, 3, 2)).raw.num_params == 28
    assert is_lazy(lazy[1].weight)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (awaited, "coroutine.* awaits it"),
        (lambda: (each for each in range(3)), "generator.* reads it to its end"),
        (lambda: {"a": [map(abs, [1]), 2]}, "map.* reads it to its end"),
        (lambda: work, "function, which did not run: call it"),
        (lambda: [partial(abs, 1)], "functools.partial, which did not run"),
        (lambda: [Future()], "Future.* waits for its result"),
        (forked, "Future.* waits for its result"),
        (lambda: threading.Thread(), "Thread.* waits for its end"),
        (entered, "enters it by `with`"),
        (lambda: Lazy(), r"calls its compute\(\)"),
        (lambda: torch.ones(2, device="meta"), "on meta, which nothing waits for"),
        (lambda: OnGpu(), "use device='gpu', which waits"),
    ],
)
def test_a_result_that_shows_that_the_work_did_not_run_is_refused(function, message):
    with pytest.raises(UserError, match=message):
        measured(function)


def work():
    return BATCH @ BATCH


class Callable(nn.Identity):
    """An object of a library, which can be called, too."""


@pytest.mark.parametrize("result", [None, 1.5, "text", BATCH, {"a": (BATCH, work)}, [1] * 9999, Callable(), np.ones(2)])
def test_a_result_that_holds_values_is_measured(result):
    assert measured(lambda: result).samples_per_s > 0


class Pending:
    """Stands in for an array of another framework, which is there some time after its launch."""

    def block_until_ready(self):
        time.sleep(0.002)


@pytest.mark.parametrize("make", [lambda: Pending(), lambda: {"a": [Pending()]}, lambda: Holds(Pending())])
def test_what_another_framework_still_computes_is_waited_for(make):
    found = measured(make)
    assert found.latency_p50_ms >= 2
    assert found.samples_per_s <= 500


@dataclasses.dataclass
class Holds:
    value: object


def test_the_operations_of_a_step_are_counted():
    net, batch = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)), torch.randn(8, 16)
    forward = 2 * 8 * (16 * 32 + 32 * 4)
    assert measured(net, batch).flops == forward
    # The backward pass computes the gradients of the weights, and of the second layer's inputs.
    trained = measured(net, batch, "train", loss=lambda output, _: output.sum())
    assert trained.flops == forward + forward + 2 * 8 * 32 * 4


PARTS = {"a": torch.randn(6, 4), "b": torch.randn(6, 4)}


@pytest.mark.parametrize("batch", [tuple(PARTS.values()), {**PARTS, "label": torch.zeros(6)}])
def test_a_batch_is_a_tuple_or_a_mapping(batch):
    class Two(nn.Linear):  # a layer itself, whose output is no tensor
        def forward(self, a, b):
            return {"out": super().forward(a + b)}

    found = measured(Two(4, 2), batch)
    assert found.samples == 6
    assert [note for note in found.raw.notes if "label" in note] == found.raw.notes


class Stale(nn.Linear):
    kept = None

    def forward(self, x):
        self.kept = super().forward(x) if self.kept is None else self.kept
        return self.kept


class Upcasts(nn.Linear):
    def forward(self, x):
        return x.float() @ self.weight.float()


class Shared(nn.Linear):
    def __deepcopy__(self, memo):
        return self


@pytest.mark.parametrize(
    ("kind", "precision", "batch", "defect"),
    [
        (Stale, "fp32", BATCH, "the output for a batch that was never fed differs"),
        (Upcasts, "bf16", BATCH, "asked for precision bf16, but"),
    ],
)
def test_a_wrong_number_is_refused(kind, precision, batch, defect):
    with pytest.raises(InvalidError, match=defect):
        measured(kind(4, 4), batch, precision=precision)


def test_a_setting_that_the_network_changes_is_named_and_is_as_before():
    class Sets(nn.Linear):
        def forward(self, x):
            torch.set_float32_matmul_precision("medium")
            return super().forward(x)

    before = torch.get_float32_matmul_precision()
    warnings = measured(Sets(4, 4), BATCH).warnings
    assert any("changed torch.set_float32_matmul_precision from highest to medium" in each for each in warnings)
    assert torch.get_float32_matmul_precision() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"device": "cuda"}, "device=cuda: unknown device. Did you mean gpu? Choose from: cpu, gpu"),
        ({"precision": "tf32"}, "tf32 needs an NVIDIA GPU"),
        ({"model_or_function": nn.Linear}, "not <class 'torch.nn.modules.linear.Linear'>"),
        ({"model_or_function": nn.Linear(4, 4).bfloat16()}, "weights are torch.bfloat16"),
        ({"model_or_function": Shared(4, 4)}, "shares weights"),
        ({"mode": "train"}, "loss: a function of"),
        ({"batch": None}, "batch: is missing"),
        ({"batch": torch.tensor(1.0)}, "samples: its number is unknown"),
        ({"batch": {"y": torch.ones(4, 4)}}, "batch: has y, and the network gets input"),
        ({"mode": "train", "loss": lambda output, _: output}, "should return a scalar tensor"),
        ({"samples": 0}, "samples=0: should be a whole number"),
    ],
)
def test_a_mistake_names_the_argument(arguments, message):
    with pytest.raises(UserError, match=re.escape(message)):
        measured(**{"model_or_function": nn.Linear(4, 4), "batch": BATCH, **arguments})


def test_what_a_function_decides_itself_and_a_variable_that_changes_the_precision_are_refused(monkeypatch):
    for arguments in ({"mode": "train"}, {"batch": BATCH}, {"precision": "bf16"}, {"learning_rate": 0.1}):
        with pytest.raises(UserError, match=f"{next(iter(arguments))}: goes with a torch.nn.Module"):
            measured(lambda: None, **arguments)
    monkeypatch.setenv("ONEDNN_DEFAULT_FPMATH_MODE", "BF16")
    with pytest.raises(UserError, match="ONEDNN_DEFAULT_FPMATH_MODE: it may change the precision"):
        measured(nn.Linear(4, 4), BATCH)


def test_a_measurement_says_that_it_was_not_isolated_and_shows_itself_safely():
    found = measured(nn.Linear(4, 4), BATCH, name="<b>net</b>")
    assert "not isolated: measured in a process that does other things" in found.warnings
    assert repr(found).startswith("<b>net</b>: infer, cpu, fp32, 4 samples a step")
    assert "&lt;b&gt;net&lt;/b&gt;" in found._repr_html_()
    assert "<b>" not in found._repr_html_()


@pytest.mark.gpu
def test_a_batch_on_the_gpu_is_not_copied_and_the_gpus_generator_is_as_before():
    net, batch = Net(), torch.randn(8, 16)
    torch.cuda.manual_seed(4)
    before = torch.cuda.get_rng_state()
    on_host = measured(net, batch, "train", "gpu", loss=lambda output, _: output.sum())
    on_gpu = measured(net, batch.cuda(), device="gpu", precision="fp16")
    assert torch.equal(torch.cuda.get_rng_state(), before)
    assert (on_host.device, on_gpu.device, on_gpu.precision) == ("gpu", "gpu", "fp16")
    assert on_host.raw.copy_in_s
    assert not on_gpu.raw.copy_in_s
    assert next(net.parameters()).device.type == "cpu"
    weights = torch.randn(256, 256, device="cuda")
    with pytest.raises(UserError, match="device='cpu': the function used the GPU"):
        measured(lambda: weights.add_(1))  # it only starts kernels
    assert measured(lambda: weights.add_(1), device="gpu").device == "gpu"


def test_settings_of_the_process_that_slow_it_down_are_warnings(monkeypatch):
    def told(*args):
        warnings = measured(*args).warnings
        return [warning.partition(" in this process: torch")[0] for warning in warnings if "process: torch" in warning]

    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    with torch.autograd.set_detect_anomaly(True):
        assert told(nn.Linear(4, 4), BATCH) == ["anomaly detection is on"]
        assert told(lambda: None) == ["cuDNN chooses algorithms by trial", "anomaly detection is on"]
        assert (torch.is_anomaly_enabled(), torch.backends.cudnn.benchmark) == (True, True)
