"""What a sweep leaves behind, in every file, while the environment is full of secrets."""

import dataclasses
import itertools
import secrets
import shutil
from pathlib import Path

import pytest

from accelbench.cli import main
from accelbench.grid.fingerprint import fingerprint
from accelbench.schema import record
from accelbench.schema.serialize import plain, write_json
from accelbench.schema.vocab import Engine, Status
from accelbench.sinks.delivery import sync
from fakes import give_ceilings, make_project, write_plan_of
from tests.sinks.samples import cell
from tests.sinks.samples import record as make

# How the variables of libraries begin, and how those of services do.
PREFIXES = (
    *("OMP_", "KMP_", "MKL_", "ONEDNN_", "DNNL_", "ATEN_", "TORCH_", "PYTORCH_", "MALLOC_", "LD_PRELOAD_", "TCMALLOC_"),
    *("NCCL_", "GLOO_", "CUDA_", "CUBLAS_", "CUDNN_", "NVIDIA_", "TRITON_", "CC_", "CXX_", "TIMM_", "XLA_", "PJRT_"),
    *("LIBTPU_", "TPU_", "TF_", "KERAS_", "JAX_", "ORT_", "OV_", "OPENVINO_", "GLIBC_TUNABLES_", "GOMP_"),
)
SUFFIXES = ("API_KEY", "TOKEN_app_terraform_io", "SECRET", "PASSWORD", "AUTH", "CREDENTIALS")
SERVICES = ("HF_TOKEN", "WANDB_API_KEY", "AWS_SECRET_ACCESS_KEY", "OPENAI_API_KEY", "GITHUB_TOKEN", "KAGGLE_KEY")
NAMES = (*map("".join, itertools.product(PREFIXES, SUFFIXES)), *SERVICES)
# Counting the work runs the network on tensors without values.
QUOTES = """
import os
import torch

class Net(torch.nn.Linear):
    def __init__(self):
        super().__init__(8, 8)

    def forward(self, x):
        print("sent", os.environ["HF_TOKEN"])
        if type(x) is not torch.Tensor or x.device.type == "meta":
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
    assert measured.measurement.work.uncounted == ["ValueError: 401 for ***"]
    assert measured.environment["variables"].items() >= {"OMP_PROC_BIND": "false"}.items()
    assert main(["report", "runs"]) == 0
    assert main(["merge", "runs/a", "--into", "all"]) == 0
    assert (project / "mlflow.db").exists()
    told = capfd.readouterr()
    assert [name for name, value in values.items() if value in told.out + told.err] == []
    assert holders(tmp_path, values) == []


@pytest.fixture
def old(tmp_path, monkeypatch):
    """A project with a record of an earlier release, which kept variables by the beginnings of their names."""
    make_project(tmp_path / "project")
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    values, here = given(), fingerprint(Engine.lightning)
    text = f"no: hf_{values['HF_TOKEN']} at https://me:{values['CC_SECRET']}@host/x, api_key='{values['CC_AUTH']}'"
    variables = {**values, "OMP_PROC_BIND": "1"}
    first = make(cell("cnn"))
    found = [
        dataclasses.replace(first, environment=first.environment | here | {"variables": variables}),
        dataclasses.replace(make(cell("mlp"), number=2), status=Status.failed, reason=text, error=text,
                            environment=first.environment | here | {"variables": variables}),
    ]  # fmt: skip
    folder = Path("runs/nets")
    for each in found:
        write_json(folder / f"{each.name}.json", plain(each) | {"cell_id": each.cell.id, "label": each.label})
    write_plan_of(folder, found)
    assert holders(folder, values)
    return values


def test_an_old_records_secrets_are_in_no_report_and_no_store_and_not_merged(old, capsys, empty_store):
    shutil.copy(empty_store / "mlflow.db", ".")
    for num_there in (0, 2):  # merging again changes nothing
        before = {path: path.read_bytes() for path in Path("all").rglob("*.json")}
        assert main(["merge", "runs/nets", "--into", "all"]) == 0
        assert f"{num_there} were there already" in capsys.readouterr().out
        assert not before or {path: path.read_bytes() for path in Path("all").rglob("*.json")} == before
    mine, theirs = (record.read_all(sorted(Path(top).rglob("*-*.json"))) for top in ("all", "runs"))
    assert list(mine) == list(theirs)
    assert next(iter(mine)).environment["variables"] == {"OMP_PROC_BIND": "1"}
    assert main(["report", "runs"]) == 0
    assert sync(Path.cwd(), [Path("runs")]).num_delivered == 2
    shutil.rmtree("runs/nets")
    assert holders(Path.cwd(), old) == []


def test_a_password_in_an_address_is_in_no_message(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["merge", "http://me:q8ZpL2xVw7@127.0.0.1:1/results", "--into", "all"]) == 2
    told = capsys.readouterr()
    assert "me:***@127.0.0.1:1/results: can't be read" in told.err
    assert "q8ZpL2xVw7" not in told.out + told.err
