"""What a setting costs whoever adds it: one declaration, besides where it acts."""

import json
import os
import subprocess
import sys

import pytest

from fakes import TESTS, copy_package, make_project

DECLARATION = """
    toy: AtLeastOne = setting(3, "how many toys the cell has", most=9, column=True)
"""
BEFORE = '    mode: Mode = setting(help="train or infer'
CODE = """
import contextlib, io, json, sys
from pathlib import Path
from accelbench.cli import main
from accelbench.commands import completion
from accelbench.judging.row import summarise
from accelbench.sinks.mlflow_fields import translate
from fakes import make_cell
from pages import columns
from report.conftest import Maker

def said_of(*words):
    out, err = io.TextIOWrapper(io.BytesIO()), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(words)
    return status, out.buffer.getvalue().decode(), err.getvalue()

record = Maker().ok(make_cell(toy=5), 1000)
print(json.dumps({
    "given": said_of("plan", "--json", "toy=4"),
    "left out": said_of("plan", "--json"),
    "too large": said_of("plan", "--json", "toy=10"),
    "too small": said_of("plan", "--json", "toy=0"),
    "no number": said_of("plan", "--json", "toy=many"),
    "help": said_of("run", "--help"),
    "ids": [make_cell(toy=number).id for number in (4, 5)],
    "row": summarise(record)["toy"],
    "params": translate(record).params["toy"],
    "columns.md": columns(),
    "completed": "toy" in completion.settings(Path("conf")),
}))
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What accelbench says with a copy of the package in which `toy` is declared."""
    root = make_project(tmp_path_factory.mktemp("project"))
    copy_package(root, "schema/cell.py", BEFORE, DECLARATION.lstrip("\n") + BEFORE)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [root / "src", TESTS, TESTS.parent / "docs"]))}
    done = subprocess.run([sys.executable, "-c", CODE], cwd=root, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_command_line_takes_it_and_the_cell_has_it(told):
    for name, number in (("given", 4), ("left out", 3)):
        status, out, _ = told[name]
        assert (status, json.loads(out)["toy"]) == (0, number)
    assert len(set(told["ids"])) == 2


def test_its_mistakes_are_named(told):
    assert told["too large"] == [2, "", "accelbench: toy=10: should be at most 9\n"]
    assert told["too small"] == [2, "", "accelbench: toy=0: should be at least 1\n"]
    assert told["no number"] == [2, "", "accelbench: toy=many: should be a whole number\n"]


def test_it_is_explained_and_completed(told):
    assert "  toy=N                       how many toys the cell has\n" in told["help"][1]
    assert "| `toy` | how many toys the cell has | – |\n" in told["columns.md"]
    assert told["completed"]


def test_it_is_a_column_of_cells_csv_and_a_parameter_in_mlflow(told):
    assert (told["row"], told["params"]) == (5, "5")
