from accelbench.devices import gpu, packages

from .fakes import FakeNvml


def torch_folder(tmp_path, cuda):
    (tmp_path / "version.py").write_text(f"__version__ = '2.9.0'\ncuda: Optional[str] = {cuda!r}\nhip = None\n")
    return tmp_path


def test_no_driver_says_so():
    report = gpu.look(FakeNvml(driver=False), {})
    assert not report.present
    assert report.reason == "no NVIDIA driver found (NVML Shared Library Not Found)"
    assert (report.count, report.memory_bytes) == (0, None)


def test_hidden_by_the_environment(tmp_path):
    report = gpu.look(FakeNvml(), {"CUDA_VISIBLE_DEVICES": ""}, torch_folder(tmp_path, "12.8"))
    assert report.reason == "CUDA_VISIBLE_DEVICES='' leaves no GPU visible"


def test_no_gpu_behind_the_driver(tmp_path):
    assert gpu.look(FakeNvml(gpus=()), {}, torch_folder(tmp_path, "12.8")).reason == "no NVIDIA GPU found"


def test_a_cpu_build_of_torch_cannot_use_it(tmp_path):
    assert "without CUDA" in gpu.look(FakeNvml(), {}, torch_folder(tmp_path, None)).reason


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
