import pytest
import torch

from accelbench.engines.pytorch import probe
from accelbench.schema.ceilings import TRUE_PRECISIONS
from accelbench.schema.vocab import Device

pytestmark = pytest.mark.usefixtures("state_as_before")
FLOATS = [torch.float32, torch.bfloat16, torch.float16, torch.float64]


def small(dtype):
    """Name -> a small kernel for the CPU."""
    kernels = [kernel for family in probe.families(dtype, torch.device("cpu")) for kernel in family]
    return {name: make for name, flops, make in kernels if flops < 1e9}


@pytest.mark.parametrize("dtype", FLOATS)
def test_kernels_run_in_every_true_precision_of_a_cpu(dtype):
    kernels = small(dtype)
    for name in ("matmul 256", "conv3x3 1x64x28x28 NCHW"):
        result = kernels[name]()()
        assert result.dtype == dtype
        assert torch.isfinite(result).all()


def test_int8_kernels_run_on_a_cpu_as_quantised_networks_compute():
    assert small(torch.int8)["oneDNN int8 linear 256"]()().shape == (256, 256)


@pytest.mark.gpu
def test_a_gpus_ceilings():
    ceilings = probe.run(Device.gpu)
    assert ceilings.device == "gpu"
    assert ceilings.device_name == torch.cuda.get_device_name()
    assert {"fp32", "fp16", "fp64"} <= set(ceilings.flops_per_s) <= set(TRUE_PRECISIONS)
    assert ceilings.flops_per_s["fp16"] > ceilings.flops_per_s["fp32"]
    assert ceilings.memory_bytes_per_s > ceilings.host_to_device_bytes_per_s > 1e9
    assert ceilings.device_to_host_bytes_per_s > 1e9
    assert 1e-7 < ceilings.launch_s < 1e-4
