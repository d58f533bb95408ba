"""Suites of params.yaml in the stages of DVC, and projects of others whose links lead to other places."""

import json
import os
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
import yaml
from rich.console import Console

from accelbench import pipeline, stages
from accelbench.api.results import read
from accelbench.cli import main
from accelbench.errors import UserError
from accelbench.isolation.hosts import Hosts
from accelbench.schema.cell import Status
from fakes import make_project, write_sweep
from sinks import samples

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with a failed cell, which is the current folder."""
    (tmp_path / "params.yaml").write_text("suites: {nets: {model: mlp}}\n")
    (tmp_path / "dvc.yaml").touch()
    write_sweep(tmp_path / "results/nets", samples.record(samples.cell(), Status.failed))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_cell_that_failed_is_listed_and_differently_after_it_failed_again(project):
    def retries(retry, record):
        """The list of the suite whose folder has this record."""
        (project / "params.yaml").write_text(f"retry: {retry}\nsuites: {{nets: {{}}, other: {{}}}}\n")
        write_sweep(project / "results/nets", record)
        assert stages.main(["list_retries"]) == 0
        assert json.loads((project / "retries/other.json").read_text()) == {}
        return json.loads((project / "retries/nets.json").read_text())

    failed = samples.record(samples.cell(), Status.timeout)
    assert retries("none", failed) == {}
    first = retries("failed", failed)
    again = retries("failed", replace(failed, started_at="2026-11-21T09:00:00.000+00:00"))
    assert list(first) == list(again) == [failed.name]
    assert first != again
    assert retries("failed", samples.record(samples.cell(), Status.ok)) == {}


def test_a_stage_measures_what_make_repro_has_not_and_names_a_mistake_of_the_user(monkeypatch, capsys):
    measured = []
    monkeypatch.setattr(stages, "end_with_parent", lambda: None)  # the tests' parent goes on
    monkeypatch.setattr(pipeline, "run_suite", lambda console, name: measured.append(name))
    monkeypatch.setattr(pipeline, "confirm", Mock(side_effect=UserError("this can't be measured")))
    assert stages.main(["run_suite", "mine"]) == 0
    assert stages.main(["confirm"]) == 2
    assert capsys.readouterr().err == "error: this can't be measured\n"
    monkeypatch.setenv(stages.DONE, "mine confirm")
    for words in (["run_suite", "mine"], ["confirm"], ["run_suite", "other"]):
        assert stages.main(words) == 0
    assert measured == ["mine", "other"]


def test_a_suite_that_params_yaml_lost_is_in_no_report_and_every_file_is_an_output_of_dvcs_stage(project, capsys):
    for suite, model in (("gone", "gone_net"), ("nets", "kept_net")):
        write_sweep(project / "results" / suite, samples.record(samples.cell(model, suite=suite)), suite=suite)
    note = "Not shown, because params.yaml has no such suites: gone; their records stay in results"
    for report in (["build_report"], ["best"], ["report"]):
        assert (main(report) if report != ["build_report"] else stages.main(report)) == 0
        out = capsys.readouterr().out
        assert note in out.replace(" \n", " ")
        assert "gone_net" not in out
    for name in ("index.html", "report.md", "cells.csv"):
        text = (project / "report" / name).read_text()
        assert ("kept_net" in text, "gone_net" in text) == (True, False)
    assert note in (project / "report" / "report.md").read_text()
    assert [each.settings["model"]["name"] for each in read("results")] == ["kept_net"]
    # The folder of plots is empty without the pictures of an extension.
    made = {f"report/{path.name}" for path in (project / "report").iterdir()} - {"report/plots"}
    for name in ("dvc.yaml", "src/accelbench/commands/starter/dvc.yaml"):
        of_stage = yaml.safe_load((ROOT / name).read_text())["stages"]["report"]
        plots = {path for each in of_stage.get("plots", []) for path in each}
        assert made == {*of_stage["outs"], *of_stage["metrics"], *plots} - {"report/plots"}

    assert main(["best", "results/gone"]) == 0
    assert "gone_net" in capsys.readouterr().out
    (project / "params.yaml").write_text("suites: {}\n")
    assert stages.main(["build_report"]) == 2
    assert "params.yaml has no such suites: gone, nets" in capsys.readouterr().err


@pytest.mark.parametrize(("variables", "status"), [({}, 1), ({"DVC_EXP_BASELINE_REV": "0123"}, 0)])
def test_a_failed_cell_is_named_and_is_the_exit_status_but_no_experiment_is_lost(
    project, variables, status, capsys, monkeypatch
):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert stages.main(["verdict"]) == status
    assert ": failed: " in capsys.readouterr().err


@pytest.fixture
def link(project, tmp_path_factory):
    """Makes a link in the project to a folder elsewhere, which stays empty."""
    private = tmp_path_factory.mktemp("private")

    def link(place, target=private):
        (project / place).parent.mkdir(exist_ok=True)
        (project / place).symlink_to(target, target_is_directory=True)

    yield link
    assert list(private.iterdir()) == []


def test_a_report_is_not_written_through_a_link(project, link, capsys):
    for place, target in (("report", {}), ("report", {"target": "report"}), ("report/plots", {})):
        link(place, **target)
        assert main(["report", "results"]) == stages.main(["build_report"]) == 2
        assert capsys.readouterr().err.count(f"{place}: is a link to") == 2
        (project / place).unlink()
    os.renames(project / "results/nets", project / "runs/nets")
    link("runs/nets/report")
    assert main(["report", "runs/nets"]) == 2
    assert "runs/nets/report: is a link to" in capsys.readouterr().err


@pytest.mark.parametrize("place", ["results", "results/nets", "confirmed"])
@pytest.mark.fault
def test_records_of_a_suite_and_its_answers_are_not_written_through_a_link(project, link, place):
    if place != "confirmed":
        os.renames(project / "results", project / "earlier")
    link(place)
    make_project(project)
    (project / "params.yaml").write_text("confirm_s: 60\nsuites: {nets: {data: mnist, quick: ['mode=infer']}}")
    (suite,), console = pipeline.suites(project), Console(quiet=True)
    with Hosts() as hosts, pytest.raises(UserError, match=rf"{place}.*: is a link to"):
        pipeline.confirm_best(project, console, hosts) if place == "confirmed" else suite.measure(console, hosts)
