"""What a setting costs whoever adds it: one declaration, besides where it acts."""

import json
import os
import subprocess
import sys

import pytest

from fakes import TESTS, copy_package, make_project

DECLARATION = """
    toy: Annotated[int, Meta(ge=1, le=9)] = setting(3, "how many toys the cell has", column=True)
"""
NO_NUMBER = "Value 'many' of type 'str' could not be converted to Integer"
BEFORE = "    mode: Mode = _shown("
CODE = """
import contextlib, io, json, sys
from pathlib import Path
from accelbench.cli import main
from accelbench.commands import measure, project
from accelbench.judging.row import summarise
from accelbench.sinks.mlflow_fields import of_process
from fakes import make_cell, make_record
from pages import columns

def said_of(*words):
    out, err = io.TextIOWrapper(io.BytesIO()), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(words)
    return status, out.buffer.getvalue().decode(), err.getvalue()

record = make_record(make_cell(toy=5))
print(json.dumps({
    **{word: said_of("plan", "--json", *word.split()) for word in ("", "toy=4", "toy=10", "toy=0", "toy=many")},
    "help": said_of("run", "--help"),
    "its help": said_of("run", "--help", "general"),
    "ids": [make_cell(toy=number).id for number in (4, 5)],
    "row": summarise(record)["toy"],
    "params": of_process(record).params["toy"],
    "columns.md": columns(),
    "completed": " toy= " in project.script([measure.run], Path("conf")),
}))
"""


@pytest.mark.slow
def test_one_declaration_is_all_that_command_line_errors_help_records_and_sinks_need(tmp_path):
    root = make_project(tmp_path)
    copy_package(root, "schema/cell.py", BEFORE, DECLARATION.lstrip("\n") + BEFORE)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [root / "src", TESTS, TESTS.parent / "docs"]))}
    done = subprocess.run([sys.executable, "-c", CODE], cwd=root, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    for word, number in (("toy=4", 4), ("", 3)):
        status, out, _ = told[word]
        assert (status, json.loads(out)["toy"]) == (0, number)
    assert len(set(told["ids"])) == 2
    assert told["toy=10"] == [2, "", "accelbench: toy: should be `int` <= 9\n"]
    assert told["toy=0"] == [2, "", "accelbench: toy: should be `int` >= 1\n"]
    assert told["toy=many"] == [2, "", f"accelbench: toy: {NO_NUMBER}\n"]
    assert " toy " in told["help"][1]
    assert "  toy=N\n      how many toys the cell has\n" in told["its help"][1]
    assert "`toy`" in told["columns.md"]
    assert told["completed"]
    assert (told["row"], told["params"]) == (5, "5")
