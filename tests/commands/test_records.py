import json
import os

import pytest

from accelbench.cli import main
from accelbench.commands.records import default_folder
from accelbench.errors import UserError
from accelbench.project import Workplace
from accelbench.schema.vocab import Status
from report.conftest import Maker


def sweep(here, name, rate, modified_s):
    maker = Maker()
    folder = maker.suite(here / "runs", [maker.ok(maker.cell(suite=name), rate)])
    for path in folder.iterdir():
        os.utime(path, (modified_s, modified_s))
    return folder


def test_in_a_project_it_is_results_and_before_there_are_any_the_newest_run(here):
    place = Workplace.of_project(here)
    with pytest.raises(UserError, match="no records in results/ or below runs/: measure something first"):
        default_folder(place)
    mine = sweep(here, "mine", 1000, 1000)
    assert default_folder(place) == ("runs/mine", "Records: runs/mine (results/ has no records)")
    mine.rename(here / "results")
    assert default_folder(place) == ("results", "")


def test_tries_of_one_step_hide_no_sweep(here):
    sweep(here, "good", 1000, 1000)
    maker = Maker()
    tried = maker.suite(here / "runs", [maker.ok(maker.cell(suite="tries", protocol="steps", steps=1, warmup=0), 9)])
    for path in tried.iterdir():
        os.utime(path, (2000, 2000))
    assert default_folder(Workplace.outside(here))[0] == "runs/good"


def test_elsewhere_it_is_the_newest_with_records_and_a_line_says_so(here):
    with pytest.raises(UserError, match="no records below runs/"):
        default_folder(Workplace.outside(here))
    sweep(here, "old", 1000, 1000)
    assert default_folder(Workplace.outside(here)) == ("runs/old", "Records: runs/old")
    sweep(here, "new", 2000, 2000)
    (here / "runs" / "theirs").mkdir()
    (here / "runs" / "theirs" / "plan.json").write_text("{}")
    name, line = default_folder(Workplace.outside(here))
    assert (name, line) == (
        "runs/new",
        "Records: runs/new, the newest with an ok cell of 2 in runs/: name another to read it",
    )


def test_a_newer_sweep_without_an_ok_record_is_passed_over(here):
    sweep(here, "good", 1000, 1000)
    maker = Maker()
    folder = maker.suite(here / "runs", [maker.record(maker.cell(suite="bad"), status=Status.failed, reason="typo")])
    for path in folder.iterdir():
        os.utime(path, (2000, 2000))
    assert default_folder(Workplace.outside(here))[0] == "runs/good"


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
