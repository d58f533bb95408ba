import io
import json
import os
from argparse import Namespace

import pytest
from rich.console import Console

from accelbench.cli import main
from accelbench.commands.command import Context
from accelbench.commands.records_folder import default_folder
from accelbench.commands.registry import load
from accelbench.errors import UserError
from accelbench.project import Workplace
from accelbench.schema import record
from report.conftest import Maker


def sweep(here, name, rate, modified_s):
    """A sweep of one cell."""
    maker = Maker()
    folder = maker.suite(here / "runs", [maker.ok(maker.cell(suite=name), rate)])
    for path in folder.iterdir():
        os.utime(path, (modified_s, modified_s))
    return folder


def chosen(place):
    """The folder that is read, and what is said of it."""
    console = Console(file=io.StringIO(), width=200)
    return default_folder(place, Context(console=console)), console.file.getvalue().rstrip()


def test_it_is_results_in_a_project_with_any_and_else_the_newest_run_which_a_line_names(here):
    place, outside = Workplace.of_project(here), Workplace.outside(here)
    for each, where in ((place, "in results/ or below runs/: measure something first"), (outside, "below runs/")):
        with pytest.raises(UserError, match=f"no records {where}"):
            chosen(each)
    old = sweep(here, "old", 1000, 1000)
    assert chosen(place) == ("runs/old", "Records: runs/old")
    assert chosen(outside) == ("runs/old", "Records: runs/old")
    sweep(here, "new", 2000, 2000)
    (here / "runs" / "theirs").mkdir()
    (here / "runs" / "theirs" / "plan.json").write_text("{}")
    newest = "Records: runs/new, the newest of 2 in runs/: name another to read it"
    assert chosen(outside) == ("runs/new", newest)
    old.rename(here / "results")
    assert chosen(place) == ("results", "")


def test_files_of_another_program_in_runs_are_passed_over(here, capsys):
    (here / "results").mkdir()
    (here / "results" / "metrics.json").write_text("[1]")
    sweep(here, "mine", 1000, 1000)
    for name in ("plan.json", "metrics.json", "0123456789ab-01234567.json"):
        (here / "runs" / name).write_text(json.dumps(["theirs"]))
    before = {path: path.read_bytes() for path in here.rglob("*.json")}
    for words in (["best"], ["best", "runs"], ["report"], ["report", "runs"], ["compare", "runs", "runs/mine"]):
        assert main(words) in (0, 2), words
        err = capsys.readouterr().err
        assert "Traceback" not in err
    assert main(["best"]) == 0
    assert "runs/mine" in capsys.readouterr().out
    assert {path: path.read_bytes() for path in before} == before


def test_names_are_no_markup_and_records_that_are_not_shown_are_counted(here):
    maker = Maker()
    folder = maker.suite(here / "runs", [maker.ok(maker.cell(suite="[bold]\x1b[2J"), 1000)])
    record.write(maker.ok(maker.cell(batch_size=1), 10), folder)
    console = Console(file=io.StringIO(), width=80)
    assert load("report").run(Namespace(folder=f"runs/{folder.name}"), Context(console=console)) == 0
    note, address = console.file.getvalue().splitlines()
    assert note.startswith(r"Not in the plan of runs/[bold]\x1b[2J, and not shown: 1 record (")
    assert address == r"Report: runs/[bold]\x1b[2J/report/index.html"
