"""What a sweep prints: its progress, and the answer of several cells."""

import io
import re

import pytest
from rich.console import Console

from accelbench.answers.cells import Process
from accelbench.grid.estimate import Evidence, Length
from accelbench.grid.plan import Planned
from accelbench.schema.cell import ModelSpec
from accelbench.schema.measurement import Block
from accelbench.schema.vocab import Mode, Precision, Status
from accelbench.sweep import terminal
from accelbench.sweep.terminal import SweepProgress
from fakes import make_cell, make_measurement, make_record

# Progress


def progress_of(statuses, reasons=("for [a] reason",) * 3, **options):
    console = Console(file=io.StringIO(), **options)
    reason = {Status.skipped: "why"}
    cells = [make_cell(batch_size=size) for size in range(1, len(statuses) + 1)]
    items = [
        Planned.of(cell, "0" * 64, reason.get(each), cell.label) for cell, each in zip(cells, statuses, strict=True)
    ]
    with SweepProgress(console, items, Evidence()) as progress:
        for item, status, reason in zip(items, statuses, reasons, strict=True):
            progress.start(item)
            progress.finish(make_record(item.cell, status, reason=reason))
    return console.file.getvalue()


def test_each_cell_is_one_line_which_begins_with_what_differs_and_in_a_file_with_its_number():
    statuses = [Status.ok, Status.skipped, Status.failed]
    assert progress_of(statuses, width=20).splitlines() == [
        "  infer · pytorch · cpu",
        "[1/2]   mlp  fp32 b1  ok   3,200/s  ±0 %             10.0 ms",
        "[2/2]        fp32 b3  failed  for [a] reason",
    ]
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", progress_of(statuses, width=60, force_terminal=True))
    finished = [line.rstrip() for line in shown.replace("\r", "\n").splitlines() if line.startswith("  ")]
    assert finished == [
        "  infer · pytorch · cpu",
        "  mlp  fp32 b1  ok   3,200/s  ±0 %             10.0 ms",
        "       fp32 b3  failed  for [a] reason",
    ]
    assert "mlp infer fp32 b3" in shown  # the live line


def test_the_same_reason_is_that_of_the_failure_above():
    told = progress_of([Status.failed] * 4, ["a", "a", "b", "a"])
    assert re.findall("failed  (.*)", told) == ["a", "for the same reason", "b", "a"]


def test_the_live_line_has_the_time_left(monkeypatch):
    cells = [make_cell(batch_size=size) for size in (1, 2)]
    items = [Planned.of(cell, "0" * 64, None, cell.label) for cell in cells]
    progress = SweepProgress(Console(file=io.StringIO(), width=90, force_terminal=True), items, Evidence())
    for first, *others, told in (
        (Length(20.0), Length(300.0), "5 min left"),
        (Length(20.0), Length(300.0, 1), "more than 5 min left"),
        (Length(2.0), Length(300.0), "more than 5 min left"),
        (Length(2.0), Length(0.0, 1), "7 s, about 2 s expected"),
        (Length(0.0, 1), "7 s, no estimate"),
    ):
        monkeypatch.setattr(terminal, "lengths", lambda *_, found=(first, *others): found)
        progress.start(items[0])
        progress._began_s -= 7.0
        assert progress._left() == told


# The answer of several cells


def of_rate(rate=100.0, status=Status.ok, **changes):
    blocks = [Block(num_steps=10, num_samples=320, seconds=320 / rate + jitter) for jitter in (0.0, 0.01, 0.02) * 3]
    measurement = make_measurement(blocks=blocks) if status == Status.ok else None
    return make_record(make_cell(**changes), status, measurement=measurement)


def answer(*records):
    out = io.StringIO()
    terminal.show_answer([Process.of(record) for record in records], "runs/mine", Console(file=out, width=100))
    return out.getvalue()


def test_the_fastest_cell_is_named_with_its_gain_over_what_was_asked_for_first_and_each_has_a_bar():
    bf16 = {"precision": Precision.bf16}
    first = [of_rate(), of_rate(batch_size=8), of_rate(300.0, **bf16), of_rate(290.0, batch_size=8, **bf16)]
    text = answer(*first)
    words = " ".join(text.split())
    assert words.startswith("mlp infer, mnist: ○ PyTorch bf16 b32 is fastest here, 29")
    assert "; 2.98 times as fast as PyTorch fp32 b32 (likely)." in words
    longest, *others = re.findall(r"PyTorch \w+ b\d+ +(━+) +[\d.]+ samples/s", text)
    assert [len(each) / len(longest) for each in others] == pytest.approx([0.97, 0.34, 0.34], abs=0.04)
    assert "accelbench compare --top runs/mine" in words
    words = " ".join(answer(of_rate(), of_rate(50.0, batch_size=8)).split())  # cells that differ in the batch only
    assert "PyTorch fp32 b32 is fastest here, 99.7 samples/s, median step 10.0 ms" in words
    assert "; 2.00 times as fast as PyTorch fp32 b8 (likely)." in words
    words = " ".join(answer(of_rate(batch_size=8), of_rate(300.0, **bf16)).split())
    assert "PyTorch bf16 b32 gives 297 samples/s, median step 10.0 ms." in words


def test_of_many_jobs_each_is_a_line_the_largest_gain_first():
    gains = {"cnn": 4.0, "mlp": 2.0, "rnn": 0.5, "lstm": 1.0}
    records = [of_rate(mode=Mode.train)]
    for name, gain in gains.items():
        model = ModelSpec(name=name)
        records += [of_rate(model=model), of_rate(100.0 * gain, model=model, precision=Precision.bf16)]
    text = answer(*records)
    rows = re.findall(r"^  (\w+ \w+) +\w+ \w+ \w+ +(━+)○ +([\d.]+)x +[\d.]+/s", text, re.MULTILINE)
    assert [(name, ratio) for name, _, ratio in rows] == [("cnn infer", "4.0"), ("mlp infer", "2.0")]
    assert len(rows[0][1]) == pytest.approx(2 * len(rows[1][1]), abs=1)  # their logarithms
    words = " ".join(text.split())
    assert words.startswith("2 of 4 jobs run faster than PyTorch fp32 on CPU (same batch)")
    assert "nothing faster: rnn infer: PyTorch bf16 b32 0.50x ○ can't tell: lstm infer ○ likely" in words
    assert all(len(line) <= 100 for line in text.splitlines())
