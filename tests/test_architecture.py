import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import accelbench
from fakes import make_project

PACKAGE = Path(accelbench.__path__[0])
SOURCE = PACKAGE.parent
ROOT = Path(__file__).resolve().parents[1]
HEAVY = (
    "torch",
    "torch_xla",
    "torchvision",
    "pytorch_lightning",
    "tensorflow",
    "keras",
    "jax",
    "pandas",
    "matplotlib",
    "mlflow",
    "dvc",
)
MAX_LINES = 450
MAX_FUNCTION_LINES = 50
MAX_FLAT_MODULES = 9


def lint(folder):
    """Checks the walls of pyproject.toml over the package in `folder`/src, in a process of its own."""
    code = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    environment = {"PYTHONPATH": str(folder / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run([sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True)


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    folder = tmp_path_factory.mktemp("copy")
    shutil.copytree(PACKAGE, folder / "src" / "accelbench", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def test_the_walls_between_the_parts_stand(copy):
    done = lint(copy)
    assert done.returncode == 0, done.stdout
    assert "0 broken" in done.stdout


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("measuring.clock", "import torch", "Only an engine imports its framework"),
        ("data.order", "import keras", "Only an engine imports its framework"),
        ("report.page", "import torch", "Only an engine imports its framework"),
        ("sweep.run", "import mlflow", "Only sinks/mlflow.py imports mlflow"),
        ("judging.row", "import pandas", "Only report/ imports pandas"),
        ("report.build", "import accelbench.sweep.run", "Data flows down"),
        ("report.build", "import accelbench.devices.nvml", "The report is made from records"),
        ("grid.plan", "import accelbench.settings.config", "Data flows down"),
        ("worker", "import hydra", "What runs in a cell's process"),
    ],
)
def test_a_module_that_breaks_a_wall_is_found(copy, module, line, contract):
    path = copy / "src" / "accelbench" / f"{module.replace('.', '/')}.py"
    whole = path.read_text()
    path.write_text(f"{whole}\n{line}\n")
    try:
        done = lint(copy)
    finally:
        path.write_text(whole)
    assert done.returncode == 1, done.stdout
    broken = [line for line in done.stdout.splitlines() if " BROKEN" in line]
    assert any(line.startswith(contract) for line in broken)


def test_the_parent_loads_no_framework(tmp_path):
    code = (
        "import sys; from accelbench.cli import main; status = main(['plan', 'suite=mnist_networks', 'model=mlp']);"
        f"print([name for name in {HEAVY} if name in sys.modules]); sys.exit(status)"
    )
    project = make_project(tmp_path)
    done = subprocess.run([sys.executable, "-c", code], cwd=project, capture_output=True, text=True, check=True)
    assert "cells: " in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    "path", sorted(SOURCE.rglob("*.py")), ids=lambda path: path.relative_to(SOURCE).with_suffix("").as_posix()
)
def test_modules_are_small_and_init_files_empty(path):
    text = path.read_text()
    assert len(text.splitlines()) <= MAX_LINES
    if path.name == "__init__.py" and path.parent != PACKAGE:  # the package's own has the names of the Python interface
        assert text == ""


def test_few_modules_lie_outside_the_rooms():
    assert len(list(PACKAGE.glob("*.py"))) <= MAX_FLAT_MODULES


@pytest.mark.parametrize(
    "path", sorted(SOURCE.rglob("*.py")), ids=lambda path: path.relative_to(SOURCE).with_suffix("").as_posix()
)
def test_functions_are_short(path):
    functions = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)]
    lengths = {node.name: node.end_lineno - node.lineno + 1 for node in functions}
    assert {name: num for name, num in lengths.items() if num > MAX_FUNCTION_LINES} == {}
