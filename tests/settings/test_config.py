import pytest

from accelbench.errors import UserError
from accelbench.settings.compose import cells_of, compose
from fakes import make_project


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    make_project(tmp_path)
    monkeypatch.chdir(tmp_path)


def executor_of(*words):
    return cells_of(compose(["model=mlp", *words]))[1].executor


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["executor=ray", "executor.slurm.qos=high"], "executor.slurm.qos: goes with executor=slurm, and not with"),
        (["executor.ray.address=auto"], "executor.ray.address: goes with executor=ray, and not with executor=local"),
        (["executor.name=slurm"], "executor.name=slurm: without executor.slurm.nodes: use executor=slurm"),
        (["executor=slurm", "executor.slurm.time=0"], "executor.slurm.time=0: should be at least 1"),
    ],
)
def test_a_setting_that_does_not_apply_or_fit_is_named(words, message):
    with pytest.raises(UserError, match=message):
        executor_of(*words)
