import pytest

from accelbench.devices import gpu

from .fakes import FakeNvml


def look_for_gpus(folder, cuda="12.8"):
    (folder / "version.py").write_text(f"__version__ = '2.9.0'\ncuda: Optional[str] = {cuda!r}\nhip = None\n")
    return gpu.look(folder)


@pytest.mark.parametrize(
    ("nvml", "visible", "cuda", "reason"),
    [
        (FakeNvml(driver=False), None, "12.8", "no NVIDIA driver (NVML Shared Library Not Found)"),
        (FakeNvml(), "", "12.8", "CUDA_VISIBLE_DEVICES='' leaves no GPU visible"),
        (FakeNvml(gpus=()), None, "12.8", "no NVIDIA GPU found"),
        (FakeNvml(), None, None, "the installed torch is built without CUDA: install a CUDA build of torch"),
        (FakeNvml(cuda=11040), None, "12.8", "driver 580.65.06 supports CUDA 11, torch needs 12.8: update the driver"),
    ],
)
def test_why_there_is_no_gpu(tmp_path, monkeypatch, nvml, visible, cuda, reason):
    nvml.answer(monkeypatch, visible)
    report = look_for_gpus(tmp_path, cuda)
    assert (report.present, report.reason, report.count, report.memory_bytes) == (False, reason, 0, None)
    FakeNvml(cuda=12020).answer(monkeypatch)
    assert look_for_gpus(tmp_path).present


def test_the_weakest_of_several_counts_and_one_missing_figure_leaves_the_rest(tmp_path, monkeypatch):
    FakeNvml(("A100", "A100", "A30")).answer(monkeypatch)
    report = look_for_gpus(tmp_path)
    assert (report.present, report.name, report.count, report.memory_bytes) == (True, "A100 + A30", 3, 40 * 10**9)
    assert report.details["compute_capability"] == "8.0"
    FakeNvml(failing=["nvmlDeviceGetMemoryInfo", "nvmlDeviceGetCudaComputeCapability"]).answer(monkeypatch)
    report = look_for_gpus(tmp_path)
    assert (report.present, report.name, report.memory_bytes) == (True, "NVIDIA A100", None)
    assert set(report.details) == {"driver", "torch_cuda"}


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        *((None, [0, 1, 2]), ("", []), ("2,0", [2, 0]), (" 1 , 2 ", [1, 2]), ("0,-1,2", [0]), ("0,7,2", [0])),
        *(("GPU-ab", [1]), ("GPU-cccc-3,0", [2, 0]), ("none", [])),
    ],
)
def test_visible_as_cuda_reads_it(monkeypatch, wanted, names):
    FakeNvml(("A", "B", "C")).answer(monkeypatch, wanted)
    assert gpu.visible_handles() == [f"handle-{index}" for index in names]


def test_a_mig_instance_has_its_gpus_capability(monkeypatch):
    for wanted, found in (("MIG-1", [((8, 0), 42)]), ("MIG-2", [])):
        FakeNvml().answer(monkeypatch, wanted)
        assert [(each.compute_capability, each.multiprocessors) for each in gpu.visible_gpus()] == found
