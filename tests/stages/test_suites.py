import json
from dataclasses import replace

import pytest

from accelbench.schema import plan_file, record
from accelbench.schema.vocab import Status
from accelbench.stages import stage, work
from sinks import samples


def planned(root, *records):
    folder = root / "results" / "nets"
    for each in records:
        record.write(each, folder)
    cells = [plan_file.WantedCell(each.cell, each.name) for each in records]
    plan_file.write_plan(plan_file.PlanFile(suite="nets", title="", study=None, profile=None, cells=cells), folder)


def retries(root, retry, *records):
    """The list of the suite `nets` whose folder has these records."""
    (root / "params.yaml").write_text(f"retry: {retry}\nsuites: {{nets: {{model: mlp}}, other: {{model: cnn}}}}\n")
    planned(root, *records)
    work.write_retries(root)
    assert json.loads((root / "retries/other.json").read_text()) == {}
    return json.loads((root / "retries/nets.json").read_text())


@pytest.mark.parametrize("status", [Status.failed, Status.timeout, Status.killed])
def test_a_cell_that_failed_is_listed_and_differently_after_it_failed_again(tmp_path, status):
    failed = samples.record(samples.cell(), status)
    assert retries(tmp_path, "none", failed) == {}
    first = retries(tmp_path, "failed", failed)
    again = retries(tmp_path, "failed", replace(failed, started_at="2026-11-21T09:00:00.000+00:00"))
    assert list(first) == list(again) == [failed.name]
    assert first != again
    assert retries(tmp_path, "failed", samples.record(samples.cell(), Status.ok)) == {}


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with a failed cell; the stage runs in it."""
    (tmp_path / "params.yaml").write_text("suites: {nets: {model: mlp}}\n")
    (tmp_path / "dvc.yaml").touch()
    planned(tmp_path, samples.record(samples.cell(), Status.failed))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("variables", "status"), [({}, 1), ({"DVC_EXP_BASELINE_REV": "0123"}, 0)])
def test_a_failed_cell_is_named_and_is_the_exit_status_but_no_experiment_is_lost(
    project, variables, status, capsys, monkeypatch
):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert stage.main(["verdict"]) == status
    assert ": failed: " in capsys.readouterr().err
