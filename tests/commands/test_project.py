import os
import subprocess
import sys

import yaml

from accelbench.cli import main
from accelbench.commands.command import load_all
from accelbench.commands.project import FILES
from accelbench.commands.project import script as made
from accelbench.pipeline import build_report
from accelbench.project import Workplace, workplace
from accelbench.stages import STAGES
from fakes import make_project
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


ASK_BASH = """source {script}
compopt() {{ :; }}  # it works while a word is completed only
COMP_LINE={line!r} COMP_POINT=${{#COMP_LINE}}
read -ra COMP_WORDS <<< "${{COMP_LINE//=/ = }}"
[[ $COMP_LINE == *' ' ]] && COMP_WORDS+=('')
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_accelbench
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
CASES = {
    "accelbench comp": {"compare", "completion", "compile="},
    "accelbench compare --f": {"--fail-if"},
    "accelbench plan chan": {"channels_last="},
    "accelbench mode=": {"train", "infer", "generate"},
    "accelbench -m precision=bf16": {"bf16", "bf16_mixed"},
    "accelbench -m device=cpu,xla": {"cpu,xla_cpu"},
    "accelbench engine.backend=": {"tensorflow"},
    "accelbench batch_size=": set(),
}


def test_bash_completes_words_and_lists(tmp_path):
    script = tmp_path / "script"
    script.write_text(made(load_all(), make_project(tmp_path / "project") / "conf"))
    for line, answers in CASES.items():
        asked = ASK_BASH.format(script=script, line=line)
        done = subprocess.run(["bash", "--norc", "-c", asked], capture_output=True, text=True, timeout=20)
        assert (done.stderr, set(done.stdout.split())) == ("", answers)


def test_view_opens_the_viewer_of_a_folders_report_in_the_browser(here):
    page = here / "runs" / "mine" / "report" / "index.html"
    page.parent.mkdir(parents=True)
    page.touch()
    (here / "browser").write_text('#!/bin/sh\necho "$1" > opened\n')
    (here / "browser").chmod(0o755)
    for display in ({"DISPLAY": ":0"}, {}):
        environment = {**os.environ, "BROWSER": f"{here}/browser %s", **display}
        words = [sys.executable, "-m", "accelbench.cli", "view", "runs/mine"]
        said = subprocess.run(words, env=environment, check=True, capture_output=True, text=True).stdout
        assert said.startswith(f"Viewer: {page.as_uri()}#viewer (left or p, right or n, Escape or q)\n")
        assert ("no browser found on this machine: open the address in yours" in said) == (not display)
        assert [path.read_text() for path in here.glob("opened")] == [f"{page.as_uri()}#viewer\n"] * bool(display)
        (here / "opened").unlink(missing_ok=True)
    assert main(["view", "runs/none"]) == 2
