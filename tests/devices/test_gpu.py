import pytest

from accelbench.devices import gpu, packages

from .fakes import FakeNvml


def torch_folder(tmp_path, cuda):
    (tmp_path / "version.py").write_text(f"__version__ = '2.9.0'\ncuda: Optional[str] = {cuda!r}\nhip = None\n")
    return tmp_path


@pytest.mark.parametrize(
    ("nvml", "environ", "cuda", "reason"),
    [
        (FakeNvml(driver=False), {}, "12.8", "no NVIDIA driver found (NVML Shared Library Not Found)"),
        (FakeNvml(), {"CUDA_VISIBLE_DEVICES": ""}, "12.8", "CUDA_VISIBLE_DEVICES='' leaves no GPU visible"),
        (FakeNvml(gpus=()), {}, "12.8", "no NVIDIA GPU found"),
        (FakeNvml(), {}, None, "the installed torch is built without CUDA: install a CUDA build of it"),
    ],
)
def test_why_there_is_none(tmp_path, nvml, environ, cuda, reason):
    report = gpu.look(nvml, environ, torch_folder(tmp_path, cuda))
    assert (report.present, report.reason, report.count, report.memory_bytes) == (False, reason, 0, None)


def test_a_driver_older_than_torchs_cuda(tmp_path):
    reason = gpu.look(FakeNvml(cuda=11040), {}, torch_folder(tmp_path, "12.8")).reason
    assert reason == "driver 580.65.06 supports CUDA 11, torch needs 12.8: update the driver"
    assert gpu.look(FakeNvml(cuda=12020), {}, torch_folder(tmp_path, "12.8")).present


def test_the_weakest_of_several_counts(tmp_path):
    report = gpu.look(FakeNvml(("A100", "A100", "A30")), {}, torch_folder(tmp_path, "12.8"))
    assert report.present
    assert (report.name, report.count, report.memory_bytes) == ("A100 + A30", 3, 40 * 10**9)
    assert report.details["compute_capability"] == "8.0"
    assert report.details["gpu_2_power_limit_w"] == "400"


def test_one_missing_figure_leaves_the_rest(tmp_path):
    failing = ["nvmlDeviceGetMemoryInfo", "nvmlDeviceGetCudaComputeCapability"]
    report = gpu.look(FakeNvml(failing=failing), {}, torch_folder(tmp_path, "12.8"))
    assert report.present
    assert report.memory_bytes is None
    assert "compute_capability" not in report.details


def test_reads_the_cuda_release_of_the_installed_torch():
    version = gpu.torch_cuda_version(packages.folder("torch"))
    assert version is None or version.split(".")[0].isdigit()
    assert gpu.torch_cuda_version(None) is None
