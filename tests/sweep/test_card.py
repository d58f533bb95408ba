"""The card of a cell."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

import beside
from accelbench.judging.row import summarise
from accelbench.schema.cell import Mode, Phase, Precision, Protocol, Status
from accelbench.schema.measurement import Block, Breakdown, Data, Evaluation, SystemSeries, Work
from accelbench.schema.serialize import plain
from accelbench.sweep.card import show_card
from accelbench.sweep.terminal import details
from fakes import make_ceilings, make_cell, make_measurement, make_record, make_served, make_trained

PHASES = {Phase.forward: [0.0502] * 8, Phase.backward: [0.047] * 8, Phase.optimizer: [0.0024] * 8}
TESTED = Evaluation(num_samples=500, seconds=0.1, loss=0.5, accuracy=0.838)
STAND_IN = Data(name="mnist", digest="0" * 64, source="drawn digits", stand_in=True)
CEILINGS = {"ceilings": plain(make_ceilings(flops_per_s={Precision.fp32: 542e9}))}
SYSTEM = SystemSeries(t_s=[], values={}, peak_host_bytes=612_000_000)
# Uneven blocks, so that the speed has an interval.
BLOCKS = [Block(num_steps=10, num_samples=320, seconds=0.1 + late) for late in (0.0, 0.002, 0.004, 0.012) * 3]


def card_of(record, **options):
    console = Console(file=io.StringIO(), width=80, color_system=None)
    show_card(record, "runs/x/y.json", console, **options)
    return console.file.getvalue()


def lines(record, **options):
    return [line.strip() for line in card_of(record, **options).splitlines() if line.strip()]


def whole():
    """The card of a cell of which everything is known."""
    measured = make_measurement(
        blocks=BLOCKS,
        latency_s=[0.0101] * 64,
        breakdown=Breakdown(phases_s=PHASES, undisturbed_s=[0.1] * 8),
        work=Work(flops=1_300_000_000, bytes=1000, num_operators=10),
        checked=["weights", "outputs"],
        warnings=["an odd layer"],
    )
    cell = make_cell(mode=Mode.train, epochs=10)
    return card_of(make_record(cell, measurement=measured, system=SYSTEM, data=STAND_IN, environment=CEILINGS))


def test_the_card_of_a_cell_has_its_figures_its_interval_and_where_a_step_goes():
    assert whole().splitlines() == [
        "",
        "  mlp train  fp32 b32 · pytorch · cpu · mnist · a CPU",
        "",
        "  3,110 samples/s   2,860 ├──────●──┤ 3,200   10.1 ms a step, p90 10.1 ms",
        "",
        f"  {'▓' * 36}{'▒' * 33}██  step",
        "  forward 50 %   backward 47 %   optimizer 2 %",
        "",
        f"  peak {'━' * 8}{'─' * 26} 23.3 % of 542 GFLOP/s",
        "  bound by compute   10 epochs 0.322 s estimated   memory 612 MB",
        "",
        "  ✓ checked: weights, outputs",
        "  ! stand-in for mnist: the speed is valid, not the accuracy",
        "  ! an odd layer",
        "  runs/x/y.json",
        "",
    ]
    assert len(whole().split()) <= 85


def test_doubts_and_tips_are_marked_and_few_of_many_doubts_are_shown():
    record = make_record(measurement=make_measurement(warnings=["one", "two", "three", "four"]))
    assert lines(record)[-4:-1] == ["! one", "! two", "! and 2 more doubts: -v"]
    assert lines(record, is_verbose=True)[-5:-1] == ["! one", "! two", "! three", "! four"]
    faults = {"page_faults_per_s": [58e3], "cpu_system_percent": [52.0], "cpu_utilization_percent": [200.0]}
    system = SystemSeries(started_boot_s=0.0, t_s=[1.0], values=faults)
    record = make_record(measurement=make_measurement(steady_boot_s=(0.5, 1.5)), system=system)
    assert any("→ try allocator=jemalloc: 26 % of" in line for line in lines(record))


def test_requests_have_their_latencies_and_the_verdict():
    header, *told, _ = lines(make_served())
    assert header.startswith("mlp infer  fp32 b32 · pytorch · cpu · server 50rps")
    assert told == [
        "49.5 requests/s, p99 40.2 ms, sure pass: p99 at most 50 ms   p50 12.0 ms",
        "p90 21.0 ms   p99 40.2 ms   1,000 requests in 20 s   50.0/s offered",
        "3 took longer",
    ]
    assert lines(make_served(Protocol.offline))[1].startswith("49.5 requests/s   3,200 samples/s   3,200 ├")


@pytest.mark.parametrize(
    ("seconds", "told"), [(12.0, "target reached in 12.0 s, 5.00 epochs"), (None, "target not reached in 41.5 s")]
)
def test_a_training_to_a_target_has_when_it_reached_it(seconds, told):
    record = make_trained(seconds, compile_s=0.5)
    record = replace(record, measurement=replace(record.measurement, evaluation=TESTED))
    _, speed, figures, *_ = lines(record)
    assert (speed, "test accuracy 83.8 %" in figures.split("   ")) == (told, True)
    assert details(summarise(record))[-1] == "test accuracy 83.8 %"


@pytest.mark.parametrize("status", [Status.invalid, Status.failed, Status.skipped])
def test_of_a_cell_that_is_not_ok_no_figure_and_why_where_no_other_line_says_it(status):
    record = make_record(status=status, measurement=make_measurement(), system=SYSTEM)
    header, *told = lines(record)
    assert header.startswith("mlp infer  fp32 b32 · pytorch · cpu · a CPU")
    assert told == [f"{status}: for [a] reason", "runs/x/y.json"]
    assert lines(record, says_why=False)[1] == (told[0] if status == Status.skipped else status)


def test_a_disturbed_cell_has_the_reason_and_what_to_do():
    _, *told, _ = lines(beside.make_record())
    assert told == [
        "disturbed: others used 1.2 of 2 cores",
        "answers leave such a cell out",
        "→ if a machine is never quiet, set ACCELBENCH_BUSY=allowed to use disturbed cells",
    ]
