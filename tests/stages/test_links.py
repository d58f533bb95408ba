"""Projects of others, whose links would have a stage or a command write to other places."""

import os

import pytest
from rich.console import Console

from accelbench.cli import main
from accelbench.errors import UserError
from accelbench.isolation.hosts import Hosts
from accelbench.stages import stage, work
from fakes import make_project
from report.conftest import Maker

TINY = {"data": "mnist", "quick": ["mode=infer"]}


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with records; beside it is `private`, an empty folder."""
    root = make_project(tmp_path / "project")
    maker = Maker()
    maker.suite(root / "results", [maker.ok(maker.cell(suite="mnist_networks"), 1000)])
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


def test_a_report_is_not_written_through_a_link(project, private, capsys):
    (project / "report").mkdir()
    for place, target in (("report/plots", private), ("report", private), ("report", "report")):
        if place == "report":
            (project / "report/plots").unlink(missing_ok=True)
            (project / "report").unlink() if (project / "report").is_symlink() else (project / "report").rmdir()
        link(project / place, target)
        assert main(["report"]) == stage.main(["build_report"]) == 2
        assert capsys.readouterr().err.count(f"{place}: is a link to") == 2
    (folder,) = (project / "results").iterdir()
    os.renames(folder, project / "runs/nets")
    link(project / "runs/nets/report", private)
    assert main(["report", "runs/nets"]) == 2
    assert "runs/nets/report: is a link to" in capsys.readouterr().err


@pytest.mark.parametrize("place", ["results", "results/mnist_networks", "confirmed"])
@pytest.mark.fault
def test_records_of_a_suite_and_its_answers_are_not_written_through_a_link(project, private, place):
    if place != "confirmed":
        os.renames(project / "results", project / "earlier")
    link(project / place, private)
    (project / "params.yaml").write_text(f"confirm_s: 60\nsuites: {{mnist_networks: {TINY}}}")
    (suite,), console = work.suites(project), Console(quiet=True)
    with Hosts() as hosts, pytest.raises(UserError, match=rf"{place}.*: is a link to"):
        work.confirm_best(project, console, hosts) if place == "confirmed" else suite.measure(console, hosts)
