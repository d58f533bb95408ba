import pytest
import torch

from accelbench.engines.lightning import engine
from accelbench.engines.lightning.backends import check_has_code
from accelbench.errors import UnsupportedError
from accelbench.schema.vocab import Device
from fakes import make_cell

# What `torch.cuda.get_arch_list` gives in builds of torch.
CUDA_11_8 = ["sm_37", "sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90"]
CUDA_12_8 = ["sm_70", "sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"]
WITH_PTX = ["sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120", "compute_120"]
GTX_750_TI, GTX_1080, V100, T4, A100 = (5, 0), (6, 1), (7, 0), (7, 5), (8, 0)
RTX_3090, RTX_4090, H100, B200, B300, RTX_5090, NEWER = (8, 6), (8, 9), (9, 0), (10, 0), (10, 3), (12, 0), (13, 0)


@pytest.mark.parametrize(
    ("arch_list", "runs", "does_not"),
    [
        (CUDA_11_8, [GTX_750_TI, GTX_1080, V100, T4, A100, RTX_3090, RTX_4090, H100], [B200, RTX_5090]),
        (CUDA_12_8, [V100, T4, A100, RTX_4090, H100, B200, B300, RTX_5090], [GTX_750_TI, GTX_1080, NEWER]),
        (WITH_PTX, [T4, A100, RTX_4090, H100, B200, RTX_5090, NEWER], [GTX_750_TI, V100]),
        (["sm_86"], [RTX_3090, RTX_4090], [A100, H100]),
        (["compute_80"], [A100, RTX_3090, H100, NEWER], [T4]),
        (["sm_90a", "compute_90a"], [H100], [A100, B200]),
        (["sm_100f"], [B200, B300], [H100, RTX_5090]),
        ([], [A100], []),  # a torch that does not tell is asked to run
    ],
)
def test_code_runs_on_its_major_version_and_ptx_on_every_newer_gpu(arch_list, runs, does_not):
    for capability in runs:
        check_has_code("a GPU", capability, arch_list)
    for capability in does_not:
        with pytest.raises(UnsupportedError, match="has no code"):
            check_has_code("a GPU", capability, arch_list)


def test_a_cell_on_a_gpu_that_torch_has_no_code_for_is_unsupported(monkeypatch, digits):
    answers = {"is_available": True, "get_device_name": "NVIDIA GTX", "get_device_capability": (5, 0)}
    for name, answer in {**answers, "get_arch_list": CUDA_12_8}.items():
        monkeypatch.setattr(torch.cuda, name, lambda *_, answer=answer: answer)
    with pytest.raises(UnsupportedError) as raised:
        engine.run(make_cell(device=Device.gpu), digits)
    assert str(raised.value) == (
        "NVIDIA GTX has compute capability 5.0, for which the installed torch has no code: it has sm_70, sm_75, sm_80, "
        "sm_86, sm_90, sm_100, sm_120; install a build of torch for this GPU, or use device=cpu"
    )
