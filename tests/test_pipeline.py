"""Suites of params.yaml in the stages of DVC, and projects of others whose links lead to other places."""

import contextlib
import json
import os
from dataclasses import replace
from pathlib import Path

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
from report.conftest import Maker
from sinks import samples

ROOT = Path(__file__).resolve().parents[1]


def retries(root, retry, *records):
    """The list of the suite `nets` whose folder has these records."""
    (root / "params.yaml").write_text(f"retry: {retry}\nsuites: {{nets: {{model: mlp}}, other: {{model: cnn}}}}\n")
    write_sweep(root / "results/nets", *records)
    with contextlib.chdir(root):
        assert stages.main(["list_retries"]) == 0
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
    assert stages.main(["build_report"]) == 0
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
        assert (main(report) if report != ["build_report"] else stages.main(report)) == 0
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


TINY = {"data": "mnist", "quick": ["mode=infer"]}


@pytest.fixture
def linked(tmp_path, monkeypatch):
    """A project with records; beside it is `private`, an empty folder."""
    root = make_project(tmp_path / "project")
    maker = Maker()
    maker.suite(root / "results", [maker.ok(maker.cell(suite="mnist_networks"), 1000)])
    (tmp_path / "private").mkdir()
    monkeypatch.chdir(root)
    return root


@pytest.fixture
def private(linked):
    yield linked.parent / "private"
    left = {path.name for path in linked.parent.iterdir()}
    assert left == {"project", "private"}
    assert list((linked.parent / "private").iterdir()) == []


def link(path, target):
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(target, target_is_directory=True)


def test_a_report_is_not_written_through_a_link(linked, private, capsys):
    (linked / "report").mkdir()
    for place, target in (("report/plots", private), ("report", private), ("report", "report")):
        if place == "report":
            (linked / "report/plots").unlink(missing_ok=True)
            (linked / "report").unlink() if (linked / "report").is_symlink() else (linked / "report").rmdir()
        link(linked / place, target)
        assert main(["report"]) == stages.main(["build_report"]) == 2
        assert capsys.readouterr().err.count(f"{place}: is a link to") == 2
    (folder,) = (linked / "results").iterdir()
    os.renames(folder, linked / "runs/nets")
    link(linked / "runs/nets/report", private)
    assert main(["report", "runs/nets"]) == 2
    assert "runs/nets/report: is a link to" in capsys.readouterr().err


@pytest.mark.parametrize("place", ["results", "results/mnist_networks", "confirmed"])
@pytest.mark.fault
def test_records_of_a_suite_and_its_answers_are_not_written_through_a_link(linked, private, place):
    if place != "confirmed":
        os.renames(linked / "results", linked / "earlier")
    link(linked / place, private)
    (linked / "params.yaml").write_text(f"confirm_s: 60\nsuites: {{mnist_networks: {TINY}}}")
    (suite,), console = pipeline.suites(linked), Console(quiet=True)
    with Hosts() as hosts, pytest.raises(UserError, match=rf"{place}.*: is a link to"):
        pipeline.confirm_best(linked, console, hosts) if place == "confirmed" else suite.measure(console, hosts)
