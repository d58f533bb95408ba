import sys

import yaml

from accelbench.cli import main
from accelbench.commands.project import FILES
from accelbench.pipeline import build_report
from accelbench.project import Workplace, workplace
from accelbench.stages import STAGES
from report.conftest import Maker


def test_a_new_project_has_a_suite_that_composes_and_stages_that_the_package_has(here, capsys, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr(sys, "argv", ["accelbench"])
    assert main(["init", "mine"]) == 0
    assert "cd mine; git init && dvc init && dvc repro" in capsys.readouterr().out
    mine = here / "mine"
    assert {path.name for path in mine.iterdir()} == set(FILES)
    monkeypatch.chdir(mine)
    assert workplace() == Workplace.of_project(mine)
    assert main(["plan", "suite=my_network"]) == 0
    out = capsys.readouterr().out
    assert "MyNetwork-cpu-bf16-b32-train-host" in out
    assert "8 cells: 4 to run" in out

    stages, params = (yaml.safe_load((mine / name).read_text()) for name in ("dvc.yaml", "params.yaml"))
    report = stages["stages"].pop("report")
    assert {*report["params"]} <= {*params}  # else DVC refuses
    commands = [
        (stage.get("do") or stage)["cmd"].removeprefix("exec ") for stage in [report, *stages["stages"].values()]
    ]
    assert all(command.startswith("python -m accelbench.stages ") for command in commands)
    assert {command.split()[3] for command in commands} == set(STAGES) - {"list_retries"}
    maker = Maker()
    maker.suite(mine / "results", [maker.ok(maker.cell(suite="my_network"), 1000.0)])
    build_report(None)
    assert all((mine / name).is_file() or any((mine / name).iterdir()) for name in report["outs"])  # as DVC needs


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
