"""What a sweep leaves holds no secret."""

import itertools
import secrets

from accelbench.cli import main
from accelbench.schema import record
from fakes import QUICK, give_ceilings

# How the variables of libraries begin, and how those of services do.
PREFIXES = ("OMP_", "MKL_", "TORCH_", "PYTORCH_", "MALLOC_", "NVIDIA_", "CUDA_", "CC_", "XLA_", "TF_", "KERAS_")
SUFFIXES = ("API_KEY", "TOKEN_app_terraform_io", "SECRET", "PASSWORD", "AUTH", "CREDENTIALS")
SERVICES = ("HF_TOKEN", "WANDB_API_KEY", "AWS_SECRET_ACCESS_KEY", "OPENAI_API_KEY", "GITHUB_TOKEN", "KAGGLE_KEY")
NAMES = (*map("".join, itertools.product(PREFIXES, SUFFIXES)), *SERVICES)
# It quotes secrets in its output; that is compared with the output of another network, whose error quotes one.
QUOTES = """
import os
import torch

class Net(torch.nn.Linear):
    made = []

    def __init__(self):
        super().__init__(8, 8)
        Net.made.append(self)

    def forward(self, x):
        print("sent", os.environ["HF_TOKEN"])
        if self is not Net.made[0]:
            raise ValueError("401 for " + os.environ["NVIDIA_API_KEY"])
        return super().forward(x)

def batch(batch_size):
    return torch.randn(batch_size, 8)
"""
QUOTING = ["model=custom", "model.target=quotes.Net", "model.batch=quotes.batch", "threads=1", *QUICK]


def test_a_sweep_of_one_small_cell_leaves_no_secret_in_any_file(project, monkeypatch, capfd):
    (project / "quotes.py").write_text(QUOTES)
    monkeypatch.setenv("XDG_CACHE_HOME", str(project / "cache"))
    values = {name: f"v{secrets.token_hex(12)}" for name in NAMES}
    for name, value in {**values, "OMP_PROC_BIND": "false"}.items():
        monkeypatch.setenv(name, value)
    give_ceilings(project)
    assert main([*QUOTING, "tracking=mlflow", "out=runs/a"]) == 0
    (measured,) = map(record.read, (project / "runs/a").glob("*-*.json"))
    assert measured.environment["variables"].items() >= {"OMP_PROC_BIND": "false"}.items()
    # Real samples and the real steady state have the same clock: this is how load beside a cell is found.
    started_s, (began_s, ended_s) = measured.system.started_boot_s, measured.measurement.steady_boot_s
    assert started_s < began_s < ended_s < started_s + measured.wall_s
    assert main(["report", "runs"]) == 0
    assert main(["merge", "runs/a", "--into", "all"]) == 0
    assert (project / "mlflow.db").exists()
    assert main(["merge", "http://me:q8ZpL2xVw7@127.0.0.1:1/results", "--into", "all"]) == 2
    told = "".join(capfd.readouterr())
    assert "me:***@127.0.0.1:1/results: no such folder" in told
    files = [path.read_bytes() for path in project.rglob("*") if path.is_file() and not path.is_symlink()]
    kept = b"\n".join([told.encode(), *files])
    assert [name for name, value in {**values, "address": "q8ZpL2xVw7"}.items() if value.encode() in kept] == []
