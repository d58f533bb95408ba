"""A disturbed cell is in no answer: its false speed, ten times the quiet one's, is shown nowhere."""

import dataclasses
import io

import pytest
from rich.console import Console

from accelbench.answers.cells import Process
from accelbench.answers.comparison import RecordSet, Terms, answer, compared
from accelbench.answers.jobs import jobs
from accelbench.cli import main
from accelbench.report import build, contents, overview, read
from accelbench.schema.cell import Precision
from accelbench.sinks.mlflow_fields import NOTE, of_process
from beside import REASON, make_record, quiet
from fakes import make_cell, write_sweep

FALSE, TRUE = 32_000.0, 3_200.0
TEXT = f"disturbed: {REASON}"
DISTURBED = make_record(cell=make_cell(precision=Precision.bf16), rate=FALSE)
UNDISTURBED = make_record(quiet(), cell=make_cell(precision=Precision.fp32), rate=TRUE)
SLOWER = make_record(quiet(), cell=make_cell(precision=Precision.fp64), rate=TRUE / 2)


def test_the_report_and_best_show_the_reason_and_answer_with_another(tmp_path, capsys):
    folder = write_sweep(tmp_path / "runs" / "mine", DISTURBED, UNDISTURBED, SLOWER)
    sweeps = read.read_all(folder)
    (found,) = jobs(sweeps[0].cells)
    assert [cell.cell.precision for cell in found.cells] == [Precision.fp32, Precision.fp64]
    assert "bf16" not in found.sentence
    (row,) = contents.reasons(read.cells_in(sweeps)).rows
    assert [entry.text for entry in row[:3]] == ["disturbed", "1", REASON]
    (row,) = [reported.row for reported in sweeps[0].cells if not reported.is_ok]  # in the CSV file
    assert (row["status"], row["disturbed"], row["samples_per_s"]) == ("ok", REASON, None)
    metrics = build.metrics(contents.compose(sweeps))
    assert (metrics["ok"], metrics["failed"], metrics["faster"]) == (2, 1, 0)
    cells = overview.every_cell(sweeps, [])
    rows = [dict(zip(cells["names"], values, strict=True)) for values in cells["rows"]]
    assert [row["remark"] for row in rows if row["disturbed"]] == [TEXT]
    assert main(["best", str(folder)]) == 0
    said = capsys.readouterr().out
    assert f"mlp-cpu-bf16-b32-infer: {TEXT}" in said
    assert "PyTorch fp32 b32 is fastest here" in said


def test_trackers_get_no_speed():
    run = of_process(DISTURBED)
    assert run.metrics.keys() <= {"peak_host_mb", "batch_size"}
    assert f"**{TEXT}**" in run.tags[NOTE]
    assert of_process(UNDISTURBED).metrics["speed"] == TRUE


def test_a_comparison_leaves_it_out():
    def processes(cell, num_disturbed):
        records = [make_record(quiet(), cell=cell, rate=TRUE)] * 6 + [
            make_record(cell=cell, rate=FALSE)
        ] * num_disturbed
        started = [f"2026-11-20T09:00:{at:02}.000+00:00" for at in range(len(records))]
        timed = [dataclasses.replace(one, started_at=at) for one, at in zip(records, started, strict=True)]
        return RecordSet(name="x", processes=[Process.of(each) for each in timed])

    sides = processes(UNDISTURBED.cell, 0), processes(DISTURBED.cell, 2)
    ((_, comparison),) = compared(*sides, anyway=True).pairs
    assert (comparison.num_first, comparison.num_second) == (6, 6)
    assert comparison.ratio == pytest.approx(1)
    answer(*sides, Terms(anyway=True), console := Console(file=io.StringIO(), width=200))
    said = console.file.getvalue()
    assert f"Disturbed, left out: 2 of 14 processes ({REASON})." in said
    assert "6 ok, 2 disturbed" in said
