import contextlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from accelbench.api.results import read
from accelbench.cli import main
from accelbench.schema.vocab import Status
from accelbench.stages import stage
from fakes import write_sweep
from sinks import samples

ROOT = Path(__file__).resolve().parents[2]


def retries(root, retry, *records):
    """The list of the suite `nets` whose folder has these records."""
    (root / "params.yaml").write_text(f"retry: {retry}\nsuites: {{nets: {{model: mlp}}, other: {{model: cnn}}}}\n")
    write_sweep(root / "results/nets", *records)
    with contextlib.chdir(root):
        assert stage.main(["list_retries"]) == 0
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
    write_sweep(tmp_path / "results/nets", samples.record(samples.cell(), Status.failed))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_file_of_the_report_is_an_output_of_dvcs_stage(project):
    write_sweep(project / "results" / "nets", samples.record(samples.cell("net", suite="nets")), suite="nets")
    assert stage.main(["build_report"]) == 0
    made = {f"report/{path.name}" for path in (project / "report").iterdir()}
    made.remove("report/plots")  # which is empty without the pictures of an extension
    for name in ("dvc.yaml", "src/accelbench/commands/starter/dvc.yaml"):
        of_stage = yaml.safe_load((ROOT / name).read_text())["stages"]["report"]
        plots = {path for each in of_stage.get("plots", []) for path in each}
        assert made == {*of_stage["outs"], *of_stage["metrics"], *plots} - {"report/plots"}


def test_a_suite_that_params_yaml_lost_is_in_no_report_and_a_line_names_it(project, capsys):
    for suite, model in (("gone", "gone_net"), ("nets", "kept_net")):
        write_sweep(project / "results" / suite, samples.record(samples.cell(model, suite=suite)), suite=suite)
    note = "Not shown, because params.yaml has no such suites: gone; their records stay in results"
    for report in (["build_report"], ["best"], ["report"]):
        assert (main(report) if report != ["build_report"] else stage.main(report)) == 0
        out = capsys.readouterr().out
        assert note in out.replace(" \n", " ")
        assert "gone_net" not in out
    for name in ("index.html", "report.md", "cells.csv"):
        text = (project / "report" / name).read_text()
        assert "kept_net" in text
        assert "gone_net" not in text
    assert note in (project / "report" / "report.md").read_text()
    assert [each.settings["model"]["name"] for each in read("results")] == ["kept_net"]

    assert main(["best", "results/gone"]) == 0
    assert "gone_net" in capsys.readouterr().out
    (project / "params.yaml").write_text("suites: {}\n")
    assert stage.main(["build_report"]) == 2
    assert "params.yaml has no such suites: gone, nets" in capsys.readouterr().err


@pytest.mark.parametrize(("variables", "status"), [({}, 1), ({"DVC_EXP_BASELINE_REV": "0123"}, 0)])
def test_a_failed_cell_is_named_and_is_the_exit_status_but_no_experiment_is_lost(
    project, variables, status, capsys, monkeypatch
):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert stage.main(["verdict"]) == status
    assert ": failed: " in capsys.readouterr().err
