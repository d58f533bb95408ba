import sys

import pytest
import yaml

from accelbench.cli import main
from accelbench.commands.project import FILES
from accelbench.pipeline import build_report
from accelbench.project import Workplace, workplace
from accelbench.stages import STAGES
from report.conftest import Maker


@pytest.fixture(autouse=True)
def here(here, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr(sys, "argv", ["accelbench"])
    return here


def test_a_new_project_has_a_suite_of_a_network_that_composes(here, capsys, monkeypatch):
    assert main(["init", "mine"]) == 0
    assert "cd mine; git init && dvc init && dvc repro" in capsys.readouterr().out
    assert {path.name for path in (here / "mine").iterdir()} == set(FILES)
    monkeypatch.chdir(here / "mine")
    assert workplace() == Workplace.of_project(here / "mine")
    assert main(["plan", "suite=my_network"]) == 0
    out = capsys.readouterr().out
    assert "MyNetwork-cpu-bf16-b32-train-host" in out
    assert "8 cells: 4 to run" in out


def test_nothing_is_overwritten_and_a_folder_that_can_not_be_made_is_named(here, capsys):
    for name in FILES:
        folder = here / f"with_{name}"
        folder.mkdir()
        (folder / name).write_text("theirs")
        assert main(["init", folder.name]) == 2
        assert f"accelbench: init: {name} in {folder.name} would be overwritten" in capsys.readouterr().err
        assert [(path.name, path.read_text()) for path in folder.iterdir()] == [(name, "theirs")]
    (here / "file").touch()
    assert main(["init", "file/mine"]) == 2
    assert "file/mine: not writable" in capsys.readouterr().err


def test_every_stage_of_its_dvc_yaml_is_one_of_the_packages(here):
    assert main(["init"]) == 0
    stages = yaml.safe_load((here / "dvc.yaml").read_text())["stages"]
    assert {*stages["report"]["params"]} <= {*yaml.safe_load((here / "params.yaml").read_text())}  # else DVC refuses
    commands = [(stage.get("do") or stage)["cmd"].removeprefix("exec ") for stage in stages.values()]
    assert all(command.startswith("python -m accelbench.stages ") for command in commands)
    assert {command.split()[3] for command in commands} == set(STAGES) - {"list_retries"}


def test_no_output_of_the_report_stage_is_an_empty_folder(here):
    assert main(["init"]) == 0
    maker = Maker()
    maker.suite(here / "results", [maker.ok(maker.cell(suite="my_network"), 1000.0)])
    build_report(None)
    outs = yaml.safe_load((here / "dvc.yaml").read_text())["stages"]["report"]["outs"]
    assert [name for name in outs if not (here / name).exists()] == []
    assert [name for name in outs if (here / name).is_dir() and not any((here / name).iterdir())] == []
