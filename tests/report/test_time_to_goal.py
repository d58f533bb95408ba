"""Trainings to a target: what the page, report.md, the terminal, MLflow and Python show of them."""

import io

from rich.console import Console

import accelbench
from accelbench.answers.cells import Process, cells_of
from accelbench.answers.time_to_goal import target_answers
from accelbench.cli import main
from accelbench.commands.command import show_sweep
from accelbench.schema.cell import ModelSpec
from accelbench.schema.vocab import Precision
from accelbench.sinks.mlflow_fields import about, of_cells, of_process
from accelbench.sweep import terminal
from accelbench.sweep.run import SweepResult
from fakes import make_cell, make_options, make_record, make_trained, write_sweep

TIMES = [11.4, 12.9, 11.9, 12.3, 11.1, None]
RECORDS = [
    *(make_trained(seconds, seed=seed, compile_s=0.5) for seed, seconds in enumerate(TIMES)),
    *(make_trained(20.0 + seed, seed=seed, precision=Precision.bf16_mixed) for seed in range(6)),
]
(ANSWER,) = target_answers(cells_of(map(Process.of, RECORDS)))


def test_every_surface_says_the_same_sentence(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    others = [make_record(make_cell(precision=word)) for word in (Precision.fp32, Precision.bf16)]
    write_sweep(tmp_path / "runs/mine", *RECORDS, *others)
    assert "fp32 b32: 12.3 s (at least 11.1, 5 of 6 seeds), " in ANSWER.sentence
    assert main(["best", "runs/mine"]) == main(["report", "runs/mine"]) == 0
    assert ANSWER.sentence in capsys.readouterr().out.replace("\n", " ")
    console = Console(file=io.StringIO(), width=150)
    terminal.show_answer([Process.of(record) for record in RECORDS], "runs/mine", console)
    assert ANSWER.sentence in console.file.getvalue()
    report = (tmp_path / "runs/mine/report/report.md").read_text()
    assert ANSWER.sentence in " ".join(report.split())
    row = next(line for line in report.splitlines() if line.startswith("| PyTorch fp32 b32 "))
    assert "| 5 of 6 seeds | 12.3 s | at least 11.1 |" in row
    found = accelbench.read("runs/mine")
    assert (round(found[0].target_s, 3), found[0].target_epochs, found[0].samples_per_s) == (12.3, 5, None)
    assert ANSWER.sentence in repr(found)
    assert "target reached in 12.3 s, 5.00 epochs" in repr(found[0])


def test_a_sweep_is_compared_with_earlier_learning_rates_in_its_folder(tmp_path):
    earlier = RECORDS[:6]
    slow = ModelSpec(name="mlp", learning_rate=0.01)
    records = [make_trained(30.0 + seed, seed=seed, model=slow) for seed in range(6)]
    window = make_record(make_cell(model=slow))  # a job of its own, which the sweep did not measure
    write_sweep(tmp_path / "mine", *earlier, window, *records)
    console = Console(file=io.StringIO(), width=300)
    show_sweep(make_options(), console, SweepResult(tmp_path / "mine", records))
    (answer,) = target_answers(cells_of(map(Process.of, [*earlier, *records])))
    assert "fp32 b32 lr 0.001: 12.3 s" in answer.sentence
    assert answer.sentence in console.file.getvalue()
    assert "inference" not in console.file.getvalue()
    show_sweep(make_options(), console, SweepResult(tmp_path / "mine", [window]))
    assert console.file.getvalue().count("mlp on mnist to accuracy") == 1


def test_mlflow_has_the_quality_over_steps_and_over_time():
    run = of_process(RECORDS[0])
    points = [point for point in run.series if point.key == "target/accuracy"]
    assert [(each.value, each.step) for each in points][3:] == [(0.4, 400), (0.975, 500), (0.975, 600)]
    assert points[4].timestamp_ms - run.start_ms == 11400
    assert (run.metrics["target_s"], run.metrics["target_epochs"]) == (11.4, 5)
    cells = cells_of(map(Process.of, RECORDS))
    assert [round(each.metrics["target_s"], 3) for each in of_cells(cells)] == [12.3, 23]
    assert ANSWER.sentence in " ".join(about(cells).replace("*", "").split())
