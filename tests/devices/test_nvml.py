import pytest

from accelbench.devices import gpu, nvml

from .fakes import FakeNvml

THREE = FakeNvml(("A", "B", "C"))


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (None, [0, 1, 2]),
        ("", []),
        ("2,0", [2, 0]),
        (" 1 , 2 ", [1, 2]),
        ("0,-1,2", [0]),
        ("0,7,2", [0]),
        ("0,0", []),
        ("GPU-ab", [1]),
        ("GPU-a", []),  # ambiguous
        ("GPU-cccc-3,0", [2, 0]),
        ("none", []),
    ],
)
def test_visible_as_cuda_reads_it(wanted, found):
    environ = {} if wanted is None else {"CUDA_VISIBLE_DEVICES": wanted}
    assert nvml.visible_handles(THREE, environ) == [f"handle-{index}" for index in found]


def test_a_mig_instance_has_its_gpus_capability():
    [found] = nvml.visible_gpus(FakeNvml(), {"CUDA_VISIBLE_DEVICES": "MIG-1"})
    assert found.compute_capability == (8, 0)
    assert found.multiprocessors == 42
    assert nvml.visible_gpus(FakeNvml(), {"CUDA_VISIBLE_DEVICES": "MIG-2"}) == []


def test_each_figure_fails_alone():
    failing = ["nvmlDeviceGetMemoryInfo", "nvmlDeviceGetEnforcedPowerLimit"]
    [found] = nvml.visible_gpus(FakeNvml(failing=failing), {})
    assert found == nvml.Gpu(
        name="NVIDIA A100", memory_bytes=None, compute_capability=(8, 0), power_limit_w=None, multiprocessors=None
    )


@pytest.mark.gpu
@pytest.mark.skipif(not gpu.look().present, reason="no usable NVIDIA GPU here")
def test_a_real_gpu_is_described_in_full():
    gpus = nvml.visible_gpus()
    assert gpus
    assert all(gpu.memory_bytes and gpu.compute_capability and gpu.name for gpu in gpus)
