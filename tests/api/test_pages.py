"""The examples of docs/python.md and docs/ci.md."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from accelbench.cli import main
from accelbench.commands.registry import choose
from fakes import give_ceilings, make_project

DOCS = Path(__file__).resolve().parents[2] / "docs"
SHORT = " tracking=none window.measure_s=0.05 window.latency_s=0.02 window.warmup_s=0.01 window.block_s=0.005"
NETS = """
from torch import nn

class Net(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(28 * 28, 10))

class Reference(Net):
    pass
"""


def blocks(page, language):
    return re.findall(rf"```{language}\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)


@pytest.mark.slow
def test_the_examples_of_the_python_page_run(tmp_path):
    project = make_project(tmp_path)
    give_ceilings(project)
    code = "\n".join(blocks("python.md", "python"))
    assert "data=random" in code
    code = code.replace("data=random", f"data=random{SHORT}").replace("accelbench.measure(", "show(")
    head = (
        "import accelbench\nquick = accelbench.Window(measure_s=0.05, latency_s=0.02, warmup_s=0.01, block_s=0.005)\n"
        "def show(*args, **named): print(accelbench.measure(*args, window=quick, **named))\n"
    )
    command = [sys.executable, "-c", f"{head}{code}\nprint(page)"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(" samples a step, on ") == 4
    assert "can't tell, 1 and 1 processes" in done.stdout
    assert Path(done.stdout.splitlines()[-1]).exists()


def ci_commands():
    (job,), (script,) = blocks("ci.md", "yaml"), blocks("ci.md", "bash")
    of_job = [step["run"] for step in yaml.safe_load(job)["jobs"]["speed"]["steps"] if "run" in step]
    of_script = [line for line in script.splitlines() if line.startswith("accelbench compare")]
    return [line for line in [*of_job, *of_script] if line.startswith("accelbench")]


def test_the_commands_of_the_ci_page_are_understood(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(make_project(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["accelbench"])
    (tmp_path / "nets.py").write_text(NETS)
    commands = ci_commands()
    assert len(commands) == 2
    for line in commands:
        command, words = choose(shlex.split(line)[1:])
        chosen = command.parse(words)
        assert chosen.fail_if == "slower:5%"
        for side in [chosen.first, *chosen.others] if chosen.run else []:
            assert main(["plan", *shlex.split(side)]) == 0, capsys.readouterr().err
    (script,) = blocks("ci.md", "bash")
    (cell,) = re.findall(r'^cell="(.*)"$', script, re.MULTILINE)
    assert main(["plan", *cell.split(), "repeat=1", "out=runs/premerge"]) == 0
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)
