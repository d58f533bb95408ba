"""What a sweep prints: its progress, the answer of several cells, and the card of one."""

import io
import re
from dataclasses import replace
from functools import partial

import pytest
from rich.console import Console

import beside
from accelbench.answers.cells import Process
from accelbench.grid.plan import Evidence, Planned
from accelbench.judging.row import summarise
from accelbench.schema.cell import Mode, ModelSpec, Phase, Precision, Protocol, Status
from accelbench.schema.measurement import Block, Breakdown, Data, Evaluation, SystemSeries, Work
from accelbench.schema.plan_file import labels
from accelbench.schema.serialize import plain
from accelbench.sweep import terminal
from accelbench.sweep.card import show_card
from accelbench.sweep.terminal import JobLines, SweepProgress, details
from fakes import make_ceilings, make_cell, make_measurement, make_record, make_served, make_trained


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


BF16 = {"precision": Precision.bf16}


def at_rate(rate, label="", late_s=(0.0,) * 8, **changes):
    cell, step_s = make_cell(**changes), 32 / rate
    blocks = [Block(num_steps=10, num_samples=320, seconds=10 * step_s + each) for each in late_s]
    measured = make_measurement(blocks=blocks, latency_s=[step_s] * 64, precision=cell.precision)
    return make_record(cell, measurement=measured, label=label)


def lines_of(records, width=80, reason=None):
    planned = [Planned.of(record.cell, "0" * 64, None, record.label) for record in records]
    jobs = JobLines(planned, width, (), planned)
    return [line.plain for record in records for line in jobs.of(record, reason)]


def test_what_all_cells_share_is_printed_once_and_each_line_has_its_gain_over_the_reference():
    records = [
        at_rate(rate, mode=mode, batch_size=size, precision=word)
        for mode, rates in ((Mode.train, (1000.0, 1500.0, 3000.0)), (Mode.infer, (500.0, 750.0, 1500.0)))
        for rate, size, word in zip(rates, (8, 16, 16), (Precision.fp32, Precision.fp32, Precision.bf16), strict=True)
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


def test_with_repeats_a_line_has_the_speed_and_the_gain_of_its_own_process_and_a_mark_if_one_is_in_doubt():
    pairs = enumerate([(1000.0, 2000.0), (1100.0, 1650.0)])
    records = [[at_rate(slow, repeat=number), at_rate(fast, repeat=number, **BF16)] for number, (slow, fast) in pairs]
    lines = lines_of([*records[0], *records[1]])[-4:]
    found = [re.findall(r"[\d,]+/s|[\d.]+x", line) for line in lines]
    assert found == [["1,000/s"], ["2,000/s", "2.0x"], ["1,100/s"], ["1,650/s", "1.5x"]]
    doubted = make_record(measurement=make_measurement(warnings=["an odd layer"]))
    assert [line.count("!") for line in lines_of([doubted, at_rate(5000.0, **BF16)])] == [0, 1, 1]


def test_no_setting_that_differs_is_cut_on_a_narrow_terminal():
    models = [ModelSpec(name=f"a_network_of_a_long_name_{number}", args={"units": 10**number}) for number in (1, 2)]
    cells = [make_cell(model=model, seed=seed) for model in models for seed in (0, 1)]
    named = labels([*cells, *(make_cell(model=model, threads=1) for model in models)])
    records = [at_rate(100.0, named[cell.id], model=cell.model, seed=cell.seed) for cell in cells]
    for width in (20, 40, 80, 120):
        _, *told = lines_of(records, width)
        assert len({line.strip() for line in told if "a_network" in line}) == 4
        assert [sum(word in line for line in told) for word in ("a_network", "s1", "100/s")] == [4, 2, 4]
        assert max(map(len, told)) <= max(width, 40)


def test_what_a_cell_served_is_whole_when_a_target_was_reached_and_why_a_cell_is_not_ok():
    served = make_served()
    text = " ".join(lines_of([served], 60))
    for words in ("mlp", "server 50rps", "49.5 requests/s", "p99 40.2 ms", "sure pass: p99 at most 50 ms"):
        assert words in text
    # In comparisons, `repeat` counts the runs of both sides, so no line has it.
    assert lines_of([make_trained(12.0), make_trained(11.0, repeat=7)])[-1].startswith("  fp32 b32  ok  ")
    line = lines_of([make_trained(12.0), make_trained(11.0, seed=1)])[-1]
    assert line == "  fp32 b32 s1  ok  reached in validation after 11.0 s, 5.00 epochs !"
    (line,) = lines_of([make_record(status=Status.invalid)], reason="for [a] reason")
    assert line == "  mlp infer pytorch cpu fp32 b32  invalid  for [a] reason"


of_rate = partial(at_rate, late_s=(0.0, 0.01, 0.02) * 3)  # so that the speed has an interval


def answered(*records):
    out = io.StringIO()
    terminal.show_answer([Process.of(record) for record in records], "runs/mine", Console(file=out, width=100))
    return out.getvalue()


def test_the_fastest_cell_is_named_with_its_gain_over_what_was_asked_for_first_and_what_to_do_next():
    slow, small = of_rate(100.0), of_rate(100.0, batch_size=8)
    text = answered(slow, small, of_rate(300.0, **BF16), of_rate(290.0, batch_size=8, **BF16))
    words = " ".join(text.split())
    assert words.startswith("mlp infer, mnist: ○ PyTorch bf16 b32 is fastest here, 29")
    assert "; 2.98 times as fast as PyTorch fp32 b32 (likely)." in words
    longest, *others = re.findall(r"PyTorch \w+ b\d+ +(━+) +[\d.]+ samples/s", text)
    assert [len(each) / len(longest) for each in others] == pytest.approx([0.97, 0.34, 0.34], abs=0.04)
    assert words.endswith("Sure accelbench compare --top runs/mine Page accelbench report runs/mine")


def test_of_many_jobs_each_is_a_line_the_largest_gain_first():
    records = [of_rate(100.0, mode=Mode.train)]
    for name, gain in {"cnn": 4.0, "mlp": 2.0, "rnn": 0.5, "lstm": 1.0}.items():
        model = ModelSpec(name=name)
        records += [of_rate(100.0, model=model), of_rate(100.0 * gain, model=model, **BF16)]
    text = answered(*records)
    rows = re.findall(r"^  (\w+ \w+) +\w+ \w+ \w+ +(━+)○ +([\d.]+)x +[\d.]+/s", text, re.MULTILINE)
    assert [(name, ratio) for name, _, ratio in rows] == [("cnn infer", "4.0"), ("mlp infer", "2.0")]
    assert len(rows[0][1]) == pytest.approx(2 * len(rows[1][1]), abs=1)  # their logarithms
    words = " ".join(text.split())
    assert words.startswith("2 of 4 jobs run faster than PyTorch fp32 on CPU (same batch)")
    assert "nothing faster: rnn infer: PyTorch bf16 b32 0.50x ○ can't tell: lstm infer ○ likely" in words
    assert all(len(line) <= 100 for line in text.splitlines())


PHASES = {Phase.forward: [0.0502] * 8, Phase.backward: [0.047] * 8, Phase.optimizer: [0.0024] * 8}
STAND_IN = Data(name="mnist", digest="0" * 64, source="drawn digits", stand_in=True)
CEILINGS = {"ceilings": plain(make_ceilings(flops_per_s={Precision.fp32: 542e9}))}
SYSTEM = SystemSeries(t_s=[], values={}, peak_host_bytes=612_000_000)
# Uneven blocks, so that the speed has an interval.
BLOCKS = [Block(num_steps=10, num_samples=320, seconds=0.1 + late) for late in (0.0, 0.002, 0.004, 0.012) * 3]


def lines(record, **options):
    console = Console(file=io.StringIO(), width=80, color_system=None)
    show_card(record, "runs/x/y.json", console, **options)
    return [line.strip() for line in console.file.getvalue().splitlines() if line.strip()]


def test_the_card_of_a_cell_has_its_figures_its_interval_and_where_a_step_goes():
    measured = make_measurement(
        blocks=BLOCKS,
        latency_s=[0.0101] * 64,
        breakdown=Breakdown(phases_s=PHASES, undisturbed_s=[0.1] * 8),
        work=Work(flops=1_300_000_000, bytes=1000, num_operators=10),
        checked=["weights", "outputs"],
        warnings=["an odd layer"],
    )
    cell = make_cell(mode=Mode.train, epochs=10)
    record = make_record(cell, measurement=measured, system=SYSTEM, data=STAND_IN, environment=CEILINGS)
    assert lines(record) == [
        "mlp train  fp32 b32 · pytorch · cpu · mnist · a CPU",
        "3,110 samples/s   2,860 ├──────●──┤ 3,200   10.1 ms a step, p90 10.1 ms",
        f"{'▓' * 36}{'▒' * 33}██  step",
        "forward 50 %   backward 47 %   optimizer 2 %",
        f"peak {'━' * 8}{'─' * 26} 23.3 % of 542 GFLOP/s",
        "bound by compute   10 epochs 0.322 s estimated   memory 612 MB",
        "✓ checked: weights, outputs",
        "! stand-in for mnist: the speed is valid, not the accuracy",
        "! an odd layer",
        "runs/x/y.json",
    ]


def test_doubts_and_tips_are_marked_and_few_of_many_doubts_are_shown():
    record = make_record(measurement=make_measurement(warnings=["one", "two", "three", "four"]))
    assert lines(record)[-4:-1] == ["! one", "! two", "! and 2 more doubts: -v"]
    assert lines(record, is_verbose=True)[-5:-1] == ["! one", "! two", "! three", "! four"]
    faults = {"page_faults_per_s": [58e3], "cpu_system_percent": [52.0], "cpu_utilization_percent": [200.0]}
    system = SystemSeries(started_boot_s=0.0, t_s=[1.0], values=faults)
    record = make_record(measurement=make_measurement(steady_boot_s=(0.5, 1.5)), system=system)
    assert any("→ try allocator=jemalloc: 26 % of" in line for line in lines(record))


def test_requests_have_their_latencies_and_the_verdict_and_a_training_when_it_reached_its_target():
    header, *told, _ = lines(make_served())
    assert header.startswith("mlp infer  fp32 b32 · pytorch · cpu · server 50rps")
    assert told == [
        "49.5 requests/s, p99 40.2 ms, sure pass: p99 at most 50 ms   p50 12.0 ms",
        "p90 21.0 ms   p99 40.2 ms   1,000 requests in 20 s   50.0/s offered",
        "3 took longer",
    ]
    assert lines(make_served(Protocol.offline))[1].startswith("49.5 requests/s   3,200 samples/s   3,200 ├")
    reached = "target reached in validation after 12.0 s, 5.00 epochs"
    for seconds, told in ((12.0, reached), (None, "target not reached in validation after 41.5 s")):
        record = make_trained(seconds, compile_s=0.5)
        tested = Evaluation(num_samples=500, seconds=0.1, loss=0.5, accuracy=0.838)
        record = replace(record, measurement=replace(record.measurement, evaluation=tested))
        _, speed, figures, *_ = lines(record)
        assert (speed, "test accuracy 83.8 %" in figures.split("   ")) == (told, True)
        assert details(summarise(record))[-1] == "test accuracy 83.8 %"


@pytest.mark.parametrize("status", [Status.invalid, Status.failed, Status.skipped])
def test_of_a_cell_without_a_valid_figure_none_and_why_where_no_other_line_says_it(status):
    record = make_record(status=status, measurement=make_measurement(), system=SYSTEM)
    header, *told = lines(record)
    assert header.startswith("mlp infer  fp32 b32 · pytorch · cpu · a CPU")
    assert told == [f"{status}: for [a] reason", "runs/x/y.json"]
    assert lines(record, says_why=False)[1] == (told[0] if status == Status.skipped else status)
    assert lines(beside.make_record())[1:-1] == [
        "disturbed: others used 1.2 of 2 cores",
        "answers leave such a cell out",
        "→ if a machine is never quiet, set ACCELBENCH_BUSY=allowed to use disturbed cells",
    ]
