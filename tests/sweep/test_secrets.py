"""What a sweep leaves behind, in every file, while the environment is full of secrets."""

import itertools
import secrets

from accelbench.cli import main
from accelbench.schema import record
from fakes import give_ceilings, make_project

# How the variables of libraries begin, and how those of services do.
PREFIXES = (
    *("OMP_", "KMP_", "MKL_", "ONEDNN_", "DNNL_", "ATEN_", "TORCH_", "PYTORCH_", "MALLOC_", "LD_PRELOAD_", "TCMALLOC_"),
    *("NCCL_", "GLOO_", "CUDA_", "CUBLAS_", "CUDNN_", "NVIDIA_", "TRITON_", "CC_", "CXX_", "TIMM_", "XLA_", "PJRT_"),
    *("LIBTPU_", "TPU_", "TF_", "KERAS_", "JAX_", "ORT_", "OV_", "OPENVINO_", "GLIBC_TUNABLES_", "GOMP_"),
)
SUFFIXES = ("API_KEY", "TOKEN_app_terraform_io", "SECRET", "PASSWORD", "AUTH", "CREDENTIALS")
SERVICES = ("HF_TOKEN", "WANDB_API_KEY", "AWS_SECRET_ACCESS_KEY", "OPENAI_API_KEY", "GITHUB_TOKEN", "KAGGLE_KEY")
NAMES = (*map("".join, itertools.product(PREFIXES, SUFFIXES)), *SERVICES)
# The output is compared with that of another network, which fails.
QUOTES = """
import os
import torch

class Net(torch.nn.Linear):
    num_made = 0

    def __init__(self):
        super().__init__(8, 8)
        Net.num_made += 1
        self.is_other = Net.num_made > 1

    def forward(self, x):
        print("sent", os.environ["HF_TOKEN"])
        if self.is_other:
            raise ValueError("401 for " + os.environ["NVIDIA_API_KEY"])
        return super().forward(x)

def batch(batch_size):
    return torch.randn(batch_size, 8)
"""
QUOTING = (
    *("model=custom", "model.target=quotes.Net", "model.batch=quotes.batch", "mode=infer", "device=cpu"),
    *("batch_size=8", "threads=1", "breakdown_s=0", "window.measure_s=0.05", "window.warmup_s=0.02"),
    *("window.latency_s=0.05", "window.block_s=0.01"),
)


def holders(folder, values):
    """The files below `folder` that hold one of the values."""
    found = []
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            content, place = path.read_bytes(), path.relative_to(folder)
            found += [f"{place}: {name}" for name, value in values.items() if value.encode() in content]
    return found


def given():
    """A secret for each name."""
    assert len(NAMES) > 200
    return {name: f"v{secrets.token_hex(12)}" for name in NAMES}


def test_a_sweep_of_one_small_cell_leaves_no_secret_in_any_file(tmp_path, monkeypatch, capfd):
    """The network quotes secrets in its output and in the errors that checks of it catch."""
    project, values = make_project(tmp_path / "project"), given()
    (project / "quotes.py").write_text(QUOTES)
    monkeypatch.chdir(project)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name, value in {**values, "OMP_PROC_BIND": "false"}.items():
        monkeypatch.setenv(name, value)
    give_ceilings(project)
    assert main([*QUOTING, "tracking=mlflow", "out=runs/a"]) == 0
    (measured,) = [record.read(path) for path in (project / "runs/a").glob("*-*.json")]
    assert measured.environment["variables"].items() >= {"OMP_PROC_BIND": "false"}.items()
    assert main(["report", "runs"]) == 0
    assert main(["merge", "runs/a", "--into", "all"]) == 0
    assert (project / "mlflow.db").exists()
    told = capfd.readouterr()
    assert [name for name, value in values.items() if value in told.out + told.err] == []
    assert holders(tmp_path, values) == []


def test_a_password_in_an_address_is_in_no_message(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["merge", "http://me:q8ZpL2xVw7@127.0.0.1:1/results", "--into", "all"]) == 2
    told = capsys.readouterr()
    assert "me:***@127.0.0.1:1/results: no such folder" in told.err
    assert "q8ZpL2xVw7" not in told.out + told.err
