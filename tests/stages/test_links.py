"""Projects of others, whose params.yaml or links would have a stage or a command write to other places."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from accelbench.cli import main
from accelbench.errors import UserError
from accelbench.isolation.hosts import Hosts
from accelbench.report import dvc_plots
from accelbench.stages import suites
from fakes import TESTS, make_project
from report.conftest import Maker

TINY = {"data": "mnist", "model": "mlp", "mode": "infer", "precision": "fp32"}


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with records; beside it is `private`, an empty folder."""
    root = make_project(tmp_path / "project")
    maker = Maker()
    maker.suite(root / "results", [maker.ok(maker.cell(suite="nets"), 1000)])
    (tmp_path / "private").mkdir()
    monkeypatch.chdir(root)
    return root


@pytest.fixture
def private(project):
    yield project.parent / "private"
    left = {path.name for path in project.parent.iterdir()}
    assert left == {"project", "private"}
    assert list((project.parent / "private").iterdir()) == []


def link(path, target):
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(target, target_is_directory=True)


@pytest.mark.parametrize("place", ["report", "report/plots"])
@pytest.mark.fault
def test_a_report_is_not_written_through_a_link(project, private, place, capsys):
    link(project / place, private)
    assert main(["report"]) == 2
    assert f"{place}: is a link to {private}" in capsys.readouterr().err


def test_a_report_of_other_records_is_not_written_through_a_link(project, private, capsys):
    (folder,) = (project / "results").iterdir()
    os.renames(folder, project / "runs/nets")
    link(project / "runs/nets/report", private)
    assert main(["report", "runs/nets"]) == 2
    assert "runs/nets/report: is a link to" in capsys.readouterr().err


def test_the_stage_that_builds_the_report_says_it_too(project, private):
    link(project / "report", private)
    environment = {**os.environ, "PYTHONPATH": str(TESTS.parent / "src")}
    done = subprocess.run(
        [sys.executable, "-m", "accelbench.stages", "build_report"], capture_output=True, text=True, env=environment
    )
    assert (done.returncode, done.stderr.startswith("error: report: is a link to")) == (2, True), done.stderr


def test_a_link_within_the_project_is_followed(project, private):
    (project / "pages").mkdir()
    link(project / "report", project / "pages")
    assert main(["report"]) == 0
    assert (project / "pages/index.html").exists()


@pytest.mark.parametrize("name", ["throughput.csv", "dvc_plots.html", "cells.csv", "index.html"])
def test_a_file_of_the_report_that_is_a_link_is_replaced(project, name):
    precious = project.parent / "precious"
    precious.write_text("mine")
    (project / "report").mkdir()
    (project / "report" / name).symlink_to(precious)
    assert main(["report"]) == 0
    dvc_plots.write(project / "report")
    assert precious.read_text() == "mine"
    assert not (project / "report" / name).is_symlink()


def test_the_lists_of_retries_are_not_written_through_a_link(project, private):
    link(project / "retries", private)
    with pytest.raises(UserError, match="retries: is a link to"):
        suites.write_retries(project)


@pytest.mark.parametrize("place", ["results", "results/mnist_networks"])
@pytest.mark.fault
def test_records_of_a_suite_are_not_written_through_a_link(project, private, place):
    os.renames(project / "results", project / "earlier")
    link(project / place, private)
    (project / "params.yaml").write_text(f"suites: {{mnist_networks: {TINY}}}")
    (suite,) = suites.suites(project)
    with Hosts() as hosts, pytest.raises(UserError, match=rf"{place}.*: is a link to"):
        suite.measure(Console(quiet=True), hosts)


def test_answers_of_a_pipeline_are_not_written_through_a_link(project, private):
    link(project / "confirmed", private)
    (project / "params.yaml").write_text(f"confirm_s: 60\nsuites: {{nets: {TINY}}}")
    with Hosts() as hosts, pytest.raises(UserError, match="confirmed: is a link to"):
        suites.confirm(project, Console(quiet=True), hosts)


@pytest.mark.parametrize(
    "words", [["plan", "-m", "suite=../../x"], ["-m", "suite=../../x"], ["plan", "suite.name=../../x"], ["report"]]
)
@pytest.mark.fault
def test_a_suite_of_another_folder_is_refused_before_anything_is_written(project, private, words, capsys):
    if words != ["plan", "suite.name=../../x"]:
        (project / "params.yaml").write_text(f"suites: {{../../x: {TINY}}}")
    assert main(words) == 2
    assert "is that of a folder" in capsys.readouterr().err


@pytest.mark.parametrize("stage", ["list_retries", "list_source"])
@pytest.mark.fault
def test_a_stage_refuses_a_suite_and_a_data_set_of_another_folder(project, private, stage):
    (project / "params.yaml").write_text(f"suites: {{../../../x: {TINY}}}\ndata: {{../../../x: {{source: download}}}}")
    environment = {**os.environ, "PYTHONPATH": str(TESTS.parent / "src")}
    command = [sys.executable, "-m", "accelbench.stages", stage, *(["../../../x"] if stage == "list_source" else [])]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 2, done.stderr
    assert "is that of a folder" in done.stderr
    assert not [path for path in Path(project.parent).glob("x*")]


def test_a_link_to_itself_is_a_users_error(project, private, capsys):
    link(project / "report", "report")
    assert main(["report"]) == 2
    assert "report: " in capsys.readouterr().err
    link(project / "retries", "retries")
    with pytest.raises(UserError, match="retries: is a link to .*, which is no folder"):
        suites.write_retries(project)
