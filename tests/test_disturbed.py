"""A disturbed cell is in no answer: its false speed, ten times that of the quiet one, is nowhere."""

import dataclasses
import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from accelbench.answers import process
from accelbench.answers.cells import cells_of
from accelbench.answers.ranking import answers
from accelbench.api.results import Result
from accelbench.cli import main
from accelbench.compare.answer import Terms, answer, compared
from accelbench.compare.record_sets import Process, RecordSet
from accelbench.report import build, read
from accelbench.report.tables import outcomes
from accelbench.schema import plan_file
from accelbench.schema import record as records
from accelbench.schema.plan_file import PlanFile, WantedCell
from accelbench.schema.vocab import Precision, Status
from accelbench.search.goal import Goal
from accelbench.settings.config import Retry
from accelbench.sinks import run_picture
from accelbench.sinks.mlflow_fields import relative_speeds, translate
from accelbench.sweep.run import SweepResult, stands
from accelbench.sweep.terminal import conclude, outcome, show_answer, show_card
from beside import REASON, make_record, quiet
from fakes import make_cell

FALSE, TRUE = 32_000.0, 3_200.0
GOAL = Goal(by="throughput", latency_ms=None, margin=0.02, budget_s=60.0, per_batch=False)


def cell(precision):
    return make_cell(precision=precision)


@pytest.fixture
def disturbed():
    return make_record(cell=cell(Precision.bf16), rate=FALSE)


@pytest.fixture
def undisturbed():
    return make_record(quiet(), cell=cell(Precision.fp32), rate=TRUE)


@pytest.fixture
def folder(tmp_path, disturbed, undisturbed):
    """A sweep's folder with the records of both, and of a third, slower cell."""
    folder = tmp_path / "runs" / "mine"
    folder.mkdir(parents=True)
    slower = make_record(quiet(), cell=cell(Precision.fp64), rate=TRUE / 2)
    found = [disturbed, undisturbed, slower]
    for record in found:
        records.write(record, folder)
    wanted = [WantedCell(record.cell, record.name, record.label) for record in found]
    plan_file.write_plan(PlanFile(suite="s", title="S", study=None, profile=None, cells=wanted), folder)
    return folder


def shown(print_to):
    console = Console(file=io.StringIO(), width=200)
    print_to(console)
    return console.file.getvalue()


def test_another_cell_is_the_best_and_the_table_says_why(folder):
    sweeps = read.read_all(folder)
    (found,) = answers(sweeps[0].cells)
    assert found.fastest.cell.precision == Precision.fp32
    assert "bf16" not in found.sentence
    assert [cell.cell.precision for cell in found.group.cells] == [Precision.fp32, Precision.fp64]
    assert [row[:3] for row in texts(outcomes.reasons(sweeps))] == [["disturbed", "1", REASON]]


def test_a_command_that_finds_no_other_cell_says_why(folder, monkeypatch, capsys):
    for record in records.read_all(folder.glob("*-*.json")):
        if record.cell.precision != Precision.bf16:
            (folder / f"{record.name}.json").unlink()
    assert main(["best", str(folder)]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert f"1 of 3 cells in runs/mine was disturbed ({REASON}): no answer counts such a cell." in said


def texts(table):
    return [[entry.text for entry in row] for row in table.rows]


def test_metrics_count_it_and_have_no_speed_of_it(folder):
    sweeps = read.read_all(folder)
    metrics = build.headline(sweeps, answers(sweeps[0].cells))
    assert (metrics["num_cells_ok"], metrics["num_cells_disturbed"]) == (2, 1)
    assert metrics["best_infer_samples_per_s"] == pytest.approx(TRUE)
    assert "32000" not in json.dumps(metrics)


def test_the_csv_of_a_report_has_the_reason_and_no_number(folder):
    (row,) = [reported.row for reported in read.read_all(folder)[0].cells if not reported.is_ok]
    assert (row["status"], row["disturbed"], row["samples_per_s"]) == ("ok", REASON, None)


def test_python_has_the_outcome_and_no_number(disturbed):
    (cell,) = cells_of([dataclasses.replace(process.Process.of(disturbed), label="a")])
    result = Result.of(cell, Path("x"))
    assert (result.status, result.reason, result.is_ok, result.samples_per_s) == ("disturbed", REASON, False, None)
    assert repr(result) == f"Result(a: disturbed: {REASON})"


def test_trackers_get_no_speed_and_compare_none(disturbed, undisturbed):
    run = translate(disturbed)
    assert not [point for point in run.points if "samples_per_s" in point.key or "latency" in point.key]
    assert run.tags["disturbed"] == REASON
    assert f"**disturbed**: {REASON}" in run.note
    assert "samples_per_s" not in run.note
    cells = cells_of(map(process.Process.of, [disturbed, undisturbed]))
    assert relative_speeds(cells) == []
    assert sorted(cell.num_processes for cell in cells) == [0, 1]
    assert run_picture.draw(disturbed) is None
    assert [point.value for point in translate(undisturbed).points if point.key.endswith("/samples_per_s")]


def test_a_comparison_leaves_it_out(undisturbed):
    def processes(record, num_disturbed):
        several = [dataclasses.replace(record, started_at=f"2026-11-20T09:00:{at:02}.000+00:00") for at in range(6)]
        lost = [make_record(cell=record.cell, rate=FALSE) for _ in range(num_disturbed)]
        return RecordSet(name="x", processes=[Process.of(each) for each in [*several, *lost]])

    first = processes(undisturbed, 0)
    second = processes(dataclasses.replace(undisturbed, cell=cell(Precision.bf16)), 2)
    ((_, comparison),) = compared(first, second, Terms(anyway=True)).pairs
    assert (comparison.num_first, comparison.num_second) == (6, 6)
    assert comparison.ratio == pytest.approx(1)
    said = shown(lambda console: answer(first, second, Terms(anyway=True), console))
    assert f"Disturbed, left out: 2 of 14 processes ({REASON})." in said
    assert "6 ok, 2 disturbed" in said


def test_a_search_learns_nothing_of_it(disturbed, undisturbed):
    assert GOAL.sample(disturbed, disturbed.cell).is_cut
    assert GOAL.value(disturbed) is None
    assert not GOAL.sample(undisturbed, undisturbed.cell).is_cut


def test_the_terminal_says_disturbed_and_no_speed(tmp_path, disturbed, undisturbed):
    assert outcome(disturbed) == REASON
    said = shown(lambda console: show_card(disturbed, "x.json", console))
    assert f"{REASON}, so its numbers are not published" in said
    assert "samples/s" not in said
    result = SweepResult(tmp_path / "runs/mine", [disturbed, undisturbed])
    said = shown(lambda console: conclude(result.records, result.folder, console))
    assert "1 disturbed, 1 ok" in said
    assert f"disturbed: {REASON}; no answer counts such a cell. To measure again: the same command with out=" in said
    assert result.num_unexpected == 0
    assert "32,000" not in shown(lambda console: show_answer(result.records, "runs/mine", console))


@pytest.mark.parametrize(("retry", "counts"), [(Retry.none, True), (Retry.failed, False)])
def test_retry_measures_it_again(disturbed, retry, counts):
    assert disturbed.status == Status.ok
    assert stands(disturbed, retry) == counts
