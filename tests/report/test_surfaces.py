"""What every surface shows of requests and trainings to a target; and nowhere the false speed of a disturbed cell."""

import csv
import io

import pytest
from rich.console import Console

import accelbench
import beside
from accelbench.answers.cells import Process, cells_of
from accelbench.answers.comparison import RecordSet, Terms, answer, compared
from accelbench.answers.headline import notices
from accelbench.answers.jobs import jobs
from accelbench.answers.time_to_goal import target_answers
from accelbench.cli import main
from accelbench.commands.command import show_sweep
from accelbench.judging.row import served_text, summarise
from accelbench.report import build, contents, overview, read
from accelbench.schema.cell import ModelSpec, Precision, Protocol, Server, Verdict
from accelbench.sinks.mlflow_fields import NOTE, about, of_cells, of_process
from accelbench.sweep import terminal
from accelbench.sweep.run import SweepResult
from beside import REASON, quiet
from fakes import make_cell, make_options, make_record, make_served, make_trained, write_sweep

TIMES = [11.4, 12.9, 11.9, 12.3, 11.1, None]
TRAINED = [
    *(make_trained(seconds, seed=seed, compile_s=0.5) for seed, seconds in enumerate(TIMES)),
    *(make_trained(20.0 + seed, seed=seed, precision=Precision.bf16_mixed) for seed in range(6)),
]
(ANSWER,) = target_answers(cells_of(map(Process.of, TRAINED)))


def test_every_surface_says_the_same_of_trainings_to_a_target(here, capsys):
    folder = here / "runs/mine"
    others = [make_record(make_cell(precision=word)) for word in (Precision.fp32, Precision.bf16)]
    write_sweep(folder, *TRAINED, *others)
    assert "fp32 b32: 12.3 s (at least 11.1, 5 of 6 seeds), " in ANSWER.sentence
    assert main(["best", "runs/mine"]) == main(["report", "runs/mine"]) == 0
    assert ANSWER.sentence in capsys.readouterr().out.replace("\n", " ")
    console = Console(file=io.StringIO(), width=150)
    terminal.show_answer([Process.of(record) for record in TRAINED], "runs/mine", console)
    assert f"{ANSWER.sentence}\nDoubt about PyTorch fp32 b32: the time to the target may be" in console.file.getvalue()
    report = (folder / "report/report.md").read_text()
    assert ANSWER.sentence in " ".join(report.split())
    row = next(line for line in report.splitlines() if line.startswith("| PyTorch fp32 b32 "))
    assert "| 5 of 6 seeds | 12.3 s | at least 11.1 |" in row
    found = accelbench.read("runs/mine")
    assert (round(found[0].target_s, 3), found[0].target_epochs, found[0].samples_per_s) == (12.3, 5, None)
    (setting, _) = ANSWER.settings
    assert (setting.num_arrived, setting.number("target_epochs"), setting.number("target_compile_s")) == (5, 5, 0.5)
    assert ANSWER.sentence in repr(found)
    assert "target reached in validation after 12.3 s, 5.00 epochs" in repr(found[0])
    run = of_process(TRAINED[0])
    points = [point for point in run.series if point.key == "target/accuracy"]
    assert [(each.value, each.step) for each in points][3:] == [(0.4, 400), (0.975, 500), (0.975, 600)]
    assert points[4].timestamp_ms - run.start_ms == 11400
    assert (run.metrics["target_s"], run.metrics["target_epochs"]) == (11.4, 5)
    assert {each.fastest.cell.protocol for each in jobs(cells_of(map(Process.of, [*TRAINED, *others])))} == {"window"}
    cells = cells_of(map(Process.of, TRAINED))
    assert "Missing" not in notices(cells)
    assert [round(each.metrics["target_s"], 3) for each in of_cells(cells)] == [12.3, 23]
    assert ANSWER.sentence in " ".join(about(cells).replace("*", "").split())


def test_a_sweep_is_compared_with_earlier_learning_rates_in_its_folder(tmp_path):
    slow = ModelSpec(name="mlp", learning_rate=0.01)
    records = [make_trained(30.0 + seed, seed=seed, model=slow) for seed in range(6)]
    window = make_record(make_cell(model=slow))  # a job of its own, which the sweep did not measure
    folder = write_sweep(tmp_path, *TRAINED[:6], window, *records)
    console = Console(file=io.StringIO(), width=300)
    show_sweep(make_options(), console, SweepResult(folder, records))
    (answer,) = target_answers(cells_of(map(Process.of, [*TRAINED[:6], *records])))
    assert "fp32 b32 lr 0.001: 12.3 s" in answer.sentence
    assert answer.sentence in console.file.getvalue()
    assert "inference" not in console.file.getvalue()
    show_sweep(make_options(), console, SweepResult(folder, [window]))
    assert console.file.getvalue().count("mlp on mnist to accuracy") == 1


SERVED = make_served()
OFFLINE = make_served(Protocol.offline)
STREAM = make_served(Protocol.single_stream)


def test_rows_of_requests_have_their_figures_and_no_speed_but_offlines():
    row = summarise(SERVED)
    settings = {"rate": 50, "limit_ms": 50, "limit_percentile": 99}
    of_batches = {"mean_batch": 1000 / 550, "padded_share": 50 / 1050, "queue_ms": 2, "compute_ms": 10}
    of_requests = {"requests_per_s": 49.5, "verdict": "sure pass", "miss_share": 0.003, "samples_per_s": None}
    in_ms = {"request_p99_ms": 40.2, "request_p99_ms_low": 33, "request_p99_ms_high": None, "request_p999_ms": None}
    numbers = settings | of_batches | of_requests | in_ms
    assert {name: row[name] for name in numbers} == pytest.approx(numbers)
    assert (summarise(OFFLINE)["samples_per_s"], summarise(OFFLINE)["verdict"]) == (pytest.approx(3200), None)
    assert [summarise(STREAM)[name] for name in ("rate", "workers", "samples_per_s")] == [None] * 3
    assert summarise(make_record())["rate"] is None
    untold = summarise(make_served(verdict=Verdict.unknown, num_missed=870, miss_share_low=0.851, miss_share_high=0.9))
    why = "87 % of requests missed it (85 to 90 % may)"
    assert served_text(untold).endswith(f"can't tell: p99 at most 50 ms, {why}")


def test_requests_are_ranked_by_no_speed_and_every_surface_says_the_same_of_them(here):
    slow = make_served(cell=make_cell(protocol=Protocol.server, server=Server(rate=90.0)), verdict=Verdict.fails)
    records = (SERVED, slow, STREAM, OFFLINE, make_record())
    folder = write_sweep(here / "runs/mine", *records)
    cells = cells_of(map(Process.of, records))
    assert {each.fastest.cell.protocol for each in jobs(cells)} == {"offline", "window"}
    assert main(["best", "runs/mine"]) == main(["report", "runs/mine"]) == 0
    rows = list(csv.DictReader(io.StringIO((folder / "report/cells.csv").read_text())))
    assert [row["verdict"] for row in rows] == ["sure pass", "sure fail", "", "", ""]
    found = accelbench.read("runs/mine")
    assert (found[0].requests_per_s, found[0].request_p99_ms, found[0].verdict) == (49.5, 40.2, "sure pass")
    assert "49.5 requests/s, p99 40.2 ms, sure pass: p99 at most 50 ms" in repr(found)
    assert len(found.to_frame()) == 5
    (run,) = of_cells(cells_of([Process.of(slow)]))
    figures = [run.metrics[name] for name in ("request_p99_ms", "miss_share", "requests_per_s")]
    assert (*figures, run.params["rate"], run.tags["word"]) == (40.2, 0.003, 49.5, "90.0", "ok")
    assert "49.5 requests/s, p99 40.2 ms, sure fail: p99 at most 50 ms" in run.tags["mlflow.note.content"]


DISTURBED = beside.make_record(cell=make_cell(precision=Precision.bf16), rate=32_000.0)
UNDISTURBED = beside.make_record(quiet(), cell=make_cell(precision=Precision.fp32), rate=3_200.0)


def test_the_report_and_best_show_the_reason_and_answer_with_another(tmp_path, capsys):
    slower = beside.make_record(quiet(), cell=make_cell(precision=Precision.fp64), rate=1_600.0)
    folder = write_sweep(tmp_path / "runs" / "mine", DISTURBED, UNDISTURBED, slower)
    sweeps = read.read_all(folder)
    (row,) = contents.reasons(read.cells_in(sweeps)).rows
    assert [entry.text for entry in row[:3]] == ["disturbed", "1", REASON]
    assert build.metrics(contents.compose(sweeps)).items() >= {"ok": 2, "failed": 1, "faster": 0}.items()
    cells = overview.every_cell(sweeps, [])
    rows = [dict(zip(cells["names"], values, strict=True)) for values in cells["rows"]]
    assert [row["remark"] for row in rows if row["disturbed"]] == [f"disturbed: {REASON}"]
    assert main(["best", str(folder)]) == 0
    said = capsys.readouterr().out
    assert f"mlp-cpu-bf16-b32-infer: disturbed: {REASON}" in said
    assert "PyTorch fp32 b32 is fastest here" in said
    run = of_process(DISTURBED)
    assert run.metrics.keys() <= {"peak_host_mb", "batch_size"}
    assert f"**disturbed: {REASON}**" in run.tags[NOTE]


def test_a_comparison_leaves_it_out(maker):
    quick = beside.make_record(quiet(), cell=DISTURBED.cell, rate=3_200.0)
    sides = []
    for records in ([UNDISTURBED] * 6, [*[quick] * 6, DISTURBED, DISTURBED]):
        processes = [Process.of(maker.at(record, minute)) for minute, record in enumerate(records)]
        sides.append(RecordSet(name="x", processes=processes))
    ((_, comparison),) = compared(*sides, anyway=True).pairs
    assert (comparison.num_first, comparison.num_second) == (6, 6)
    assert comparison.ratio == pytest.approx(1)
    answer(*sides, Terms(anyway=True), console := Console(file=io.StringIO(), width=200))
    assert f"Disturbed, left out: 2 of 14 processes ({REASON})." in console.file.getvalue()
    assert "6 ok, 2 disturbed" in console.file.getvalue()
