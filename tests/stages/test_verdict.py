import pytest

from accelbench.schema import plan_file, record
from accelbench.schema.vocab import Status
from accelbench.stages import verdict
from sinks import samples


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with a failed cell; the stage runs in it."""
    (tmp_path / "params.yaml").write_text("suites: {nets: {model: mlp}}\n")
    (tmp_path / "dvc.yaml").touch()
    folder = tmp_path / "results" / "nets"
    failed = samples.record(samples.cell(), Status.failed)
    record.write(failed, folder)
    cells = [plan_file.WantedCell(failed.cell, failed.name)]
    plan_file.write_plan(plan_file.PlanFile(suite="nets", title="", study=None, profile=None, cells=cells), folder)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_failed_cell_is_named_and_is_the_exit_status(project, capsys):
    assert verdict.main({}) == 1
    assert ": failed: " in capsys.readouterr().err


def test_an_experiment_is_not_lost_for_a_failed_cell(project, capsys):
    assert verdict.main({"DVC_EXP_BASELINE_REV": "0123"}) == 0
    assert ": failed: " in capsys.readouterr().err


@pytest.mark.parametrize(("strict", "status"), [("false", 0), ("true", 1), ("maybe", 2)])
def test_strict_decides(project, capsys, strict, status):
    (project / "params.yaml").write_text(f"strict: {strict}\nsuites: {{nets: {{model: mlp}}}}\n")
    assert verdict.main({}) == status
    assert ("strict=maybe: should be true or false" in capsys.readouterr().err) == (status == 2)
