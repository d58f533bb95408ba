import pytest
import torch

from accelbench.engines.pytorch import probe
from accelbench.schema.ceilings import TRUE_PRECISIONS
from accelbench.schema.cell import Device

pytestmark = pytest.mark.usefixtures("state_as_before")
FLOATS = [torch.float32, torch.bfloat16, torch.float16, torch.float64]


@pytest.mark.parametrize(("dtype", "num"), [*((dtype, 3) for dtype in FLOATS), (torch.int8, 1)])
def test_kernels_run_in_every_true_precision_of_a_cpu(dtype, num):
    device = torch.device("cpu")
    results = []
    for kernel, sizes in probe.kernels(dtype, device):
        if kernel is not probe._onednn_linear or dtype == torch.float32:  # the release may lack it in this format
            results.append(kernel(*(probe._drawn(shape, dtype, device) for shape in sizes[0]))())
    assert len(results) >= num
    if dtype != torch.int8:
        assert all(torch.isfinite(result.to_dense()).all() for result in results)


@pytest.mark.gpu
def test_a_gpus_ceilings():
    ceilings = probe.run(Device.gpu)
    assert ceilings.device == "gpu"
    assert ceilings.device_name == torch.cuda.get_device_name()
    assert {"fp32", "fp16", "fp64"} <= set(ceilings.flops_per_s) <= set(TRUE_PRECISIONS)
    assert ceilings.flops_per_s["fp16"] > ceilings.flops_per_s["fp32"]
    assert ceilings.memory_bytes_per_s > 1e9
    assert 1e-7 < ceilings.launch_s < 1e-4
