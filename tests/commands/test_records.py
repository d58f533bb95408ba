import csv
import io
import os

import pytest
from rich.console import Console

from accelbench.cli import main
from accelbench.commands.command import default_folder
from accelbench.errors import UserError
from accelbench.project import Workplace
from accelbench.schema import record
from accelbench.schema.cell import Status
from report.conftest import Maker

maker = Maker()


def sweep(here, name, modified_s, status=Status.ok):
    """A sweep of one cell."""
    cell = maker.cell(suite=name)
    made = maker.ok(cell, 1000) if status == Status.ok else maker.record(cell, status, reason="no keras")
    folder = maker.suite(here / "runs", [made])
    for path in folder.iterdir():
        os.utime(path, (modified_s, modified_s))
    return folder


def test_the_default_is_results_in_a_project_and_else_the_newest_run_with_an_ok_cell(here):
    console = Console(file=io.StringIO(), width=200)
    place, outside = Workplace.of_project(here), Workplace.outside(here)
    for each in (place, outside):
        with pytest.raises(UserError, match="below runs/. To measure a cell, type `accelbench model=cnn`, or"):
            default_folder(each, console)
    old = sweep(here, "old", 1000)
    assert default_folder(place, console) == "runs/old"
    sweep(here, "new", 2000)
    sweep(here, "newer", 4e9, Status.skipped)
    (here / "runs" / "theirs").mkdir()
    (here / "runs" / "theirs" / "plan.json").write_text("{}")
    assert default_folder(outside, console) == "runs/new"
    old.rename(here / "results")
    assert default_folder(place, console) == "results"
    lines = [f"Records: runs/{name}, the newest in runs/ with an ok cell" for name in ("old", "new")]
    assert console.file.getvalue().splitlines() == lines


COMMANDS = ["best", "report", "figure --out a.png --question batch", "bundle --out a.zip", "export --format bencher"]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_without_a_folder_names_the_one_that_it_reads(here, command, capsys):
    maker.suite(here / "runs", [maker.ok(maker.cell(batch_size=size), 10 * size) for size in (8, 32)])
    assert main(command.split()) == 0
    captured = capsys.readouterr()
    said = captured.err if "export" in command else captured.out
    assert "Records: runs/nets, the newest in runs/ with an ok cell" in said.replace("\n", " ")


def test_a_price_and_a_limit_on_a_percentile_are_of_whoever_asks(here, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "64")
    steps_s = {"bf16": [0.05] * 650 + [0.5] * 50, "fp32": [0.06] * 700, "fp64": [0.06]}
    cells = [(maker.cell(precision=word), each) for word, each in steps_s.items()]
    maker.suite(here / "runs", [maker.ok(cell, 1000 - 9 * i, latency_s=s) for i, (cell, s) in enumerate(cells)])
    assert main(["best", "--latency-ms", "100", "--percentile", "99", "--price-per-hour", "cpu=3.6,gpu=9"]) == 0
    lines = capsys.readouterr().out.splitlines()
    (rule,) = (line for line in lines if "───" in line)
    told = " ".join(" ".join(lines).split())
    assert "PyTorch fp32 b128 gives 991 samples/s, p99 of a step 60.0 ms." in told
    # The table is no wider than the terminal, and breaks no word.
    assert len(rule) <= 64
    assert {"throughput,", "samples/s", "million", "1.01"} <= set(told.split())
    assert "Costs are computed from these prices: cpu at 3.6 an hour (set by the user)." in told
    assert main(["best", "--price-per-hour", "2,5"]) == 2
    assert "--price-per-hour 2,5: should be a price above 0, such as 2.5, or" in capsys.readouterr().err
    assert main(["report", "--price-per-hour", "3.6"]) == 0
    (table,) = (here / "runs").rglob("cells.csv")
    costs = [float(row["cost_per_million_samples"]) for row in csv.DictReader(table.read_text().splitlines())]
    assert costs == pytest.approx([1.0, 1000 / 991, 1000 / 982], rel=0.01)
    assert "cpu at 3.6 an hour (set by the user)." in table.with_name("index.html").read_text()
    (here / "params.yaml").write_text("suites: {mine: {}}\n")
    (here / "runs").rename(here / "results")
    assert main(["report", "--price-per-hour", "cpu=3.6"]) == 2
    assert "can't be used for the report of results/. Set `costs` in params.yaml" in capsys.readouterr().err


def test_names_are_no_markup_and_records_that_are_not_shown_are_counted(here, capsys):
    folder = maker.suite(here / "runs", [maker.ok(maker.cell(suite="[bold]\x1b[2J"), 1000)])
    record.write(maker.ok(maker.cell(batch_size=1), 10), folder)
    assert main(["report", f"runs/{folder.name}"]) == 0
    note, address = capsys.readouterr().out.splitlines()
    assert note.startswith(r"Not shown, because the plan of runs/[bold]\x1b[2J lacks them: 1 record (")
    assert address == r"Report: runs/[bold]\x1b[2J/report/index.html"


@pytest.mark.parametrize(
    ("num", "why"),
    [
        (5, "no fastest cell of a job has another ok cell"),  # whose order is not sure already
        (1, "--budget is too short: the comparison takes about "),
    ],
)
def test_a_comparison_of_the_best_that_has_nothing_to_measure_says_why(here, capsys, num, why):
    maker.suite(here / "runs", maker.interleaved({"fp32": 1000, "bf16": 2000}, num=num))
    assert main(["compare", "--top", "--budget", "20s", "runs/nets"]) == 2
    assert capsys.readouterr().err.startswith(f"accelbench: runs/nets: no two cells to compare: {why}")


def test_the_former_command_names_the_present_one(here, capsys):
    sweep(here, "nets", 1000)
    assert main(["regressions", "runs/nets@1111111..2222222"]) == 2
    said = capsys.readouterr()
    assert "type accelbench compare runs/nets@1111111 runs/nets@2222222 --fail-if slower:0%" in said.out
    assert main(["regressions", "runs/nets@1111111"]) == 2
