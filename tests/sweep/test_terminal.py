"""What a sweep prints: its progress, and the answer of several cells."""

import io
import re
from functools import partial

import pytest
from rich.console import Console

from accelbench.answers.cells import Process, cells_of
from accelbench.answers.jobs import jobs
from accelbench.grid.plan import Evidence, Planned
from accelbench.schema.cell import Cell, Mode, ModelSpec, Precision, Status
from accelbench.schema.measurement import Block
from accelbench.schema.plan_file import labels
from accelbench.sweep import terminal
from accelbench.sweep.terminal import JobLines, SweepProgress
from fakes import make_cell, make_measurement, make_record, make_served, make_trained


def progress_of(statuses, reasons=("for [a] reason",) * 3, **options):
    console = Console(file=io.StringIO(), **options)
    cells = [make_cell(batch_size=size) for size in range(1, len(statuses) + 1)]
    skipped = ["why" if status == Status.skipped else None for status in statuses]
    items = [Planned.of(cell, "0" * 64, why, cell.label) for cell, why in zip(cells, skipped, strict=True)]
    with SweepProgress(console, items, Evidence()) as progress:
        for item, status, reason in zip(items, statuses, reasons, strict=True):
            progress.start(item)
            progress.finish(make_record(item.cell, status, reason=reason))
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", console.file.getvalue())


def test_each_cell_is_one_line_which_begins_with_what_differs_and_in_a_file_with_its_number():
    statuses = [Status.ok, Status.skipped, Status.failed]
    assert progress_of(statuses, width=20).splitlines() == [
        "  mlp · infer · pytorch · cpu",
        "[1/2]   fp32 b1  ok   3,200/s  ±0 %             10.0 ms",
        "[2/2]   fp32 b3  failed  for [a] reason",
    ]
    shown = progress_of(statuses, width=60, force_terminal=True)
    finished = [line.rstrip() for line in shown.replace("\r", "\n").splitlines() if line.startswith("  ")]
    assert finished == [
        "  mlp · infer · pytorch · cpu",
        "  fp32 b1  ok   3,200/s  ±0 %             10.0 ms",
        "  fp32 b3  failed  for [a] reason",
    ]
    assert "fp32 b3 (about 1 s left)" in shown  # the live line
    told = progress_of([Status.failed] * 4, ["a", "a", "b", "a"])
    assert re.findall("failed  (.*)", told) == ["a", "for the same reason", "b", "a"]


# The lines of finished cells

BF16 = {"precision": Precision.bf16}


def at_rate(rate, label="", late_s=(0.0,) * 8, **changes):
    cell, step_s = make_cell(**changes), 32 / rate
    blocks = [Block(num_steps=10, num_samples=320, seconds=10 * step_s + each) for each in late_s]
    measured = make_measurement(blocks=blocks, latency_s=[step_s] * 64, precision=cell.precision)
    return make_record(cell, measurement=measured, label=label)


def lines_of(records, width=80, known=(), reason=None, plan=()):
    items, wanted = (
        [Planned.of(record.cell, "0" * 64, None, record.label) for record in every] for every in (records, plan)
    )
    jobs = JobLines(items, width, known, wanted)
    return [line.plain for record in records for line in jobs.of(record, reason)]


def test_what_all_cells_share_is_printed_once_and_each_line_has_its_gain_over_the_reference():
    small, large = {"batch_size": 8}, {"batch_size": 16}
    of_jobs = [(Mode.train, 1000.0), (Mode.infer, 500.0)]
    records = [
        at_rate(factor * rate, mode=mode, **changes)
        for mode, rate in of_jobs
        for changes, factor in ((small, 1.0), (large, 1.5), ({**large, **BF16}, 3.0))
    ]
    assert lines_of(records) == [
        "  mlp · pytorch · cpu",
        "  train fp32 b8   ok   1,000/s  ±0 %             32.0 ms",
        "  train fp32 b16  ok   1,500/s  ±0 %             21.3 ms",
        "  train bf16 b16  ok   3,000/s  ±0 %     2.0x    10.7 ms",
        "  infer fp32 b8   ok     500/s  ±0 %             64.0 ms",
        "  infer fp32 b16  ok     750/s  ±0 %             42.7 ms",
        "  infer bf16 b16  ok   1,500/s  ±0 %     2.0x    21.3 ms",
    ]
    (group, _) = jobs(cells_of(map(Process.of, records)))
    assert group.gains[0].ratio == pytest.approx(2.0)


def test_the_reference_is_first_in_the_plan_whatever_ran_first_or_failed():
    a, b, c = at_rate(1000.0), at_rate(1500.0, **BF16), at_rate(3000.0, precision=Precision.fp16)
    lines = lines_of([b, c, a, b, c], plan=[a, b, c])
    assert [re.findall(r"[\d.]+x", line) for line in lines[-5:]] == [[], ["2.0x"], [], ["1.5x"], ["3.0x"]]


def test_the_lines_of_a_long_sweep_take_no_longer_each(monkeypatch):
    calls, key_without = [], Cell.key_without
    monkeypatch.setattr(Cell, "key_without", lambda *cell_and_names: calls.append(1) or key_without(*cell_and_names))
    lines_of([at_rate(1000.0, batch_size=size) for size in range(1, 51)])
    assert len(calls) < 10 * 50


def test_with_repeats_a_line_has_the_speed_and_the_gain_of_its_own_process_and_a_mark_if_one_is_in_doubt():
    rates = [(1000.0, 2000.0), (1100.0, 1650.0)]
    records = [
        at_rate(rate, repeat=repeat, **changes)
        for repeat, pair in enumerate(rates)
        for rate, changes in zip(pair, ({}, BF16), strict=True)
    ]
    lines = lines_of(records)[-4:]
    assert [re.findall(r"[\d,]+/s|[\d.]+x", line) for line in lines] == [
        ["1,000/s"],
        ["2,000/s", "2.0x"],
        ["1,100/s"],
        ["1,650/s", "1.5x"],
    ]
    doubted = make_record(measurement=make_measurement(warnings=["an odd layer"]))
    assert [line.count("!") for line in lines_of([doubted, at_rate(5000.0, **BF16)])] == [0, 1, 1]


def test_no_setting_that_differs_is_cut_on_a_narrow_terminal():
    models = [ModelSpec(name=f"a_network_of_a_long_name_{number}", args={"units": 10**number}) for number in (1, 2)]
    cells = [make_cell(model=model, seed=seed) for model in models for seed in (0, 1)]
    named = labels([*cells, *(make_cell(model=model, threads=1) for model in models)])
    records = [at_rate(100.0, named[cell.id], model=cell.model, seed=cell.seed) for cell in cells]
    for width in (20, 40, 80, 120):
        _, *told = lines_of(records, width)
        names = [line.strip() for line in told if "a_network" in line]
        assert len(names) == len(set(names)) == 4
        assert sum("s1" in line for line in told) == 2
        assert sum("100/s" in line for line in told) == 4
        assert max(map(len, told)) <= max(width, 40)


def test_what_a_cell_served_is_whole_when_a_target_was_reached_and_why_a_cell_is_not_ok():
    served = make_served()
    text = " ".join(lines_of([served], 60))
    for words in ("mlp", "server 50rps", "49.5 requests/s", "p99 40.2 ms", "sure pass: p99 at most 50 ms"):
        assert words in text
    line = lines_of([make_trained(12.0), make_trained(11.0, seed=1)])[-1]
    assert line == "  fp32 b32 s1  ok  reached in 11.0 s, 5.00 epochs !"
    (line,) = lines_of([make_record(status=Status.invalid)], reason="for [a] reason")
    assert line == "  mlp infer pytorch cpu fp32 b32  invalid  for [a] reason"


# The answer of several cells


of_rate = partial(at_rate, late_s=(0.0, 0.01, 0.02) * 3)  # so that the speed has an interval


def answer(*records):
    out = io.StringIO()
    terminal.show_answer([Process.of(record) for record in records], "runs/mine", Console(file=out, width=100))
    return out.getvalue()


def test_the_fastest_cell_is_named_with_its_gain_over_what_was_asked_for_first_and_each_has_a_bar():
    slow, small = of_rate(100.0), of_rate(100.0, batch_size=8)
    text = answer(slow, small, of_rate(300.0, **BF16), of_rate(290.0, batch_size=8, **BF16))
    words = " ".join(text.split())
    assert words.startswith("mlp infer, mnist: ○ PyTorch bf16 b32 is fastest here, 29")
    assert "; 2.98 times as fast as PyTorch fp32 b32 (likely)." in words
    longest, *others = re.findall(r"PyTorch \w+ b\d+ +(━+) +[\d.]+ samples/s", text)
    assert [len(each) / len(longest) for each in others] == pytest.approx([0.97, 0.34, 0.34], abs=0.04)
    assert "accelbench compare --top runs/mine" in words
    words = " ".join(answer(slow, of_rate(50.0, batch_size=8)).split())  # cells that differ in the batch only
    assert "PyTorch fp32 b32 is fastest here, 99.7 samples/s, median step 320 ms" in words
    assert "; 2.00 times as fast as PyTorch fp32 b8 (likely)." in words
    words = " ".join(answer(small, of_rate(300.0, **BF16)).split())
    assert "PyTorch bf16 b32 gives 297 samples/s, median step 107 ms." in words


def test_of_many_jobs_each_is_a_line_the_largest_gain_first():
    gains = {"cnn": 4.0, "mlp": 2.0, "rnn": 0.5, "lstm": 1.0}
    records = [of_rate(100.0, mode=Mode.train)]
    for name, gain in gains.items():
        model = ModelSpec(name=name)
        records += [of_rate(100.0, model=model), of_rate(100.0 * gain, model=model, precision=Precision.bf16)]
    text = answer(*records)
    rows = re.findall(r"^  (\w+ \w+) +\w+ \w+ \w+ +(━+)○ +([\d.]+)x +[\d.]+/s", text, re.MULTILINE)
    assert [(name, ratio) for name, _, ratio in rows] == [("cnn infer", "4.0"), ("mlp infer", "2.0")]
    assert len(rows[0][1]) == pytest.approx(2 * len(rows[1][1]), abs=1)  # their logarithms
    words = " ".join(text.split())
    assert words.startswith("2 of 4 jobs run faster than PyTorch fp32 on CPU (same batch)")
    assert "nothing faster: rnn infer: PyTorch bf16 b32 0.50x ○ can't tell: lstm infer ○ likely" in words
    assert all(len(line) <= 100 for line in text.splitlines())
