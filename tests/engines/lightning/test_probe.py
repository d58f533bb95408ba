import time

import numpy as np
import pytest
import torch

from accelbench.engines.lightning import probe
from accelbench.engines.lightning.backends import Backend
from accelbench.schema.ceilings import TRUE_PRECISIONS
from accelbench.schema.vocab import Device, Precision

pytestmark = pytest.mark.usefixtures("state_as_before")
NUM_TRIES = 4  # what else runs on the machine may spoil some
FLOATS = [torch.float32, torch.bfloat16, torch.float16, torch.float64]


def least(call):
    """The seconds of the fastest of five calls."""
    call()
    taken = []
    for _ in range(5):
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return min(taken)


@pytest.mark.slow
def test_a_cpus_ceilings_are_no_lower_than_what_a_plain_call_reaches():
    one = torch.rand(1024, 1024)
    buffer = np.ones(1 << 27, dtype=np.uint8)
    for _ in range(NUM_TRIES):
        found = probe.run(Device.cpu, (Precision.fp32, Precision.tf32), seconds_each=0.003)
        assert (found.device, found.threads) == ("cpu", torch.get_num_threads())
        assert set(found.flops_per_s) == set(found.how) == {"fp32"}  # a CPU has no TF32
        assert found.probed == ["fp32", "tf32"]
        assert found.host_to_device_bytes_per_s is found.device_to_host_bytes_per_s is None
        assert 0 < found.launch_s < 1e-3
        assert found.seconds > 0
        plain = 2 * 1024**3 / least(lambda: one @ one)
        copied = 2 * len(buffer) / least(buffer.copy)
        if found.flops_per_s["fp32"] > 0.5 * plain and 0.5 < found.memory_bytes_per_s / copied < 50:
            return
    raise AssertionError((found, plain, copied))


def small(dtype):
    """A CPU's small kernels by their names."""
    kernels = [kernel for family in probe.families(dtype, torch.device("cpu")) for kernel in family]
    return {kernel.name: kernel for kernel in kernels if kernel.flops < 1e9}


@pytest.mark.parametrize("dtype", FLOATS)
def test_kernels_run_in_every_true_precision_of_a_cpu(dtype):
    found = small(dtype)
    assert ("numpy 256" in found) == (dtype in (torch.float32, torch.float64))
    for name in {"matmul 256", "linear 256", "numpy 256", "conv3x3 1x64x28x28 NCHW"} & set(found):
        result = torch.as_tensor(found[name].make()())
        assert result.dtype == dtype
        assert torch.isfinite(result).all()


def test_a_kernels_operations_are_those_of_its_shapes():
    found = small(torch.float32)
    assert found["matmul 512"].flops == found["oneDNN linear 512"].flops == found["numpy 512"].flops == 2 * 512**3
    convolution = found["conv3x3 1x64x28x28 channels_last"]
    assert convolution.flops == 2 * (64 * 28 * 28) * (64 * 3 * 3)
    assert convolution.make()().shape == (1, 64, 28, 28)


def test_int8_kernels_run_on_a_cpu_as_quantised_networks_compute():
    found = {name: kernel.make()() for name, kernel in small(torch.int8).items()}
    assert found["int8 matmul 256"].dtype == torch.int32
    assert found["oneDNN int8 linear 256"].shape == (256, 256)
    convolution = found["conv3x3 1x64x28x28 int8"]
    assert (convolution.dtype, convolution.shape) == (torch.uint8, (1, 64, 28, 28))


def test_a_kernel_that_this_torch_does_not_have_is_left_out_and_of_a_family_what_would_take_too_long(monkeypatch):
    monkeypatch.setitem(probe.PRODUCTS, "oneDNN int8 linear", lambda *_: torch.ops.onednn.no_such_kernel)
    known = {}
    probe._note_rates(Backend(), Precision.int8, lambda call: call() is None or 1.0, known)
    assert set(known) == {"int8 matmul 256", "conv3x3 1x64x28x28 int8"}  # of each family the smallest


@pytest.mark.parametrize("name", ["matmul", "numpy", "linear", "oneDNN linear"])
def test_the_products_of_all_libraries_are_the_same(name):
    one, other = torch.rand(64, 64), torch.rand(64, 64)
    transposed = name.endswith("linear")
    product = probe.PRODUCTS[name](one, other)()
    found = torch.from_numpy(product) if isinstance(product, np.ndarray) else product
    torch.testing.assert_close(found.to_dense() if found.is_mkldnn else found, one @ (other.T if transposed else other))


@pytest.mark.gpu
def test_a_gpus_ceilings():
    found = probe.run(Device.gpu)
    assert found.device == "gpu"
    assert found.device_name == torch.cuda.get_device_name()
    assert {"fp32", "fp16", "fp64"} <= set(found.flops_per_s) <= set(TRUE_PRECISIONS)
    assert found.flops_per_s["fp16"] > found.flops_per_s["fp32"]
    assert found.memory_bytes_per_s > found.host_to_device_bytes_per_s > 1e9
    assert found.device_to_host_bytes_per_s > 1e9
    assert 1e-7 < found.launch_s < 1e-4
