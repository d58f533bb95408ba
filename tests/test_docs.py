"""What the docs teach is done here, as they say it."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from accelbench.cell import Cell
from accelbench.data.obtain import Target
from accelbench.data.prepare import describe
from accelbench.data.registry import find
from fakes import make_project

ROOT = Path(__file__).resolve().parents[1]


def blocks(page, language):
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / "docs" / page).read_text(), re.DOTALL)


@pytest.fixture
def project(tmp_path):
    root = make_project(tmp_path)
    folder = root / "data" / "random"
    folder.mkdir()
    describe(find("random").obtain("random", "auto", root, Target(folder, {})), "random", folder)
    return root


def test_a_network_of_ones_own_is_measured_as_the_page_says(project):
    page = "your-own-network.md"
    (code,), (commands,) = blocks(page, "python"), blocks(page, "sh")
    (project / "my_package").mkdir()
    (project / "my_package" / "nets.py").write_text(code)
    short = ["tracking=none", "window.measure_s=0.1", "window.latency_s=0.05", "window.warmup_s=0.01", "batch_size=8"]
    env = {**os.environ, "TMPDIR": str(project)}  # a lock of its own
    lines = [line for line in commands.splitlines() if line.startswith("accelbench")]
    assert len(lines) == 2
    for line in lines:
        words = [word for word in shlex.split(line)[1:] if not word.startswith("batch_size")]
        command = [sys.executable, "-m", "accelbench.cli", *words, *short]
        done = subprocess.run(command, cwd=project, env=env, capture_output=True, text=True, timeout=200)
        assert done.returncode == 0, done.stdout + done.stderr
        assert re.search(r"MyNet-cpu-fp32-b8-\w+-host +ok ", done.stdout)


def test_what_the_page_on_comparing_measures_is_understood(project):
    lines = [shlex.split(line)[1:] for block in blocks("comparing.md", "sh") for line in block.splitlines()]
    (sides,) = [words[2:] for words in lines if words[:2] == ["compare", "--run"]]
    (sweep,) = [words for words in lines if words[0] == "-m"]
    for words, num in [*((side.split(), 1) for side in sides), (sweep, 20)]:
        command = [sys.executable, "-m", "accelbench.cli", "plan", *words]
        done = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=200)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[-1].startswith(f"{num} cells: ")


def test_what_the_page_on_several_devices_plans_is_understood(project):
    first, plan, _ = blocks("devices.md", "sh")
    for line, num in zip(first.splitlines(), (3, 3, 2), strict=True):
        command = [sys.executable, "-m", "accelbench.cli", "plan", *shlex.split(line)[1:]]
        done = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=200)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[-1].startswith(f"{num} cells: ")
    command = [sys.executable, "-m", "accelbench.cli", *shlex.split(plan.partition(">")[0])[1:]]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=200)
    (cell,) = [Cell.from_json(json.loads(line)) for line in done.stdout.splitlines()]
    assert (cell.model.name, cell.device, cell.precision, cell.data.name) == ("cnn", "gpu", "bf16", "random")


@pytest.mark.parametrize(
    "page", sorted(path.relative_to(ROOT) for path in [*ROOT.glob("docs/*.md"), ROOT / "README.md"])
)
def test_every_link_to_a_file_leads_somewhere(page):
    for link in re.findall(r"\]\(([^)#]+)\)", (ROOT / page).read_text()):
        if "://" not in link:
            assert ((ROOT / page).parent / link).exists(), link


def test_what_the_page_on_engines_measures_is_understood(project):
    lines = [line for block in blocks("engines.md", "sh") for line in block.splitlines()]
    for line, num in zip(lines, (8, 1), strict=True):
        command = [sys.executable, "-m", "accelbench.cli", "plan", *shlex.split(line)[1:]]
        done = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=200)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[-1].startswith(f"{num} cells: ")
        assert "skipped" not in done.stdout
