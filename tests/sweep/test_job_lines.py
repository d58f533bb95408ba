"""A terminal's lines about finished cells, by job."""

import re

import pytest

from accelbench.answers.cells import Process, cells_of
from accelbench.answers.jobs import jobs
from accelbench.grid.plan import Planned
from accelbench.schema.cell import Cell, ModelSpec
from accelbench.schema.measurement import Block
from accelbench.schema.plan_file import labels
from accelbench.schema.vocab import Mode, Precision, Status
from accelbench.sweep.job_lines import JobLines
from fakes import make_cell, make_measurement, make_record, make_served, make_trained

BF16 = {"precision": Precision.bf16}


def of_rate(rate, label="", **changes):
    cell = make_cell(**changes)
    step_s = 32 / rate
    blocks = [Block(num_steps=10, num_samples=320, seconds=10 * step_s)] * 8
    measured = make_measurement(blocks=blocks, latency_s=[step_s] * 64, precision=cell.precision)
    return make_record(cell, measurement=measured, label=label)


def lines_of(records, width=80, known=(), reason=None, plan=()):
    items, wanted = (
        [Planned.of(record.cell, "0" * 64, None, record.label) for record in every] for every in (records, plan)
    )
    jobs = JobLines(items, width, known, wanted)
    return [line.plain for record in records for line in jobs.of(record, reason)]


def test_a_job_is_named_once_then_what_differs_and_the_gain_over_its_reference():
    small, large = {"batch_size": 8}, {"batch_size": 16}
    of_jobs = [(Mode.train, 1000.0), (Mode.infer, 500.0)]
    records = [
        of_rate(factor * rate, mode=mode, **changes)
        for mode, rate in of_jobs
        for changes, factor in ((small, 1.0), (large, 1.5), ({**large, **BF16}, 3.0))
    ]
    assert lines_of(records) == [
        "  pytorch · cpu",
        "  mlp  train  fp32 b8   ok   1,000/s  ±0 %             32.0 ms",
        "              fp32 b16  ok   1,500/s  ±0 %             21.3 ms",
        "              bf16 b16  ok   3,000/s  ±0 %     2.0x    10.7 ms",
        "       infer  fp32 b8   ok     500/s  ±0 %             64.0 ms",
        "              fp32 b16  ok     750/s  ±0 %             42.7 ms",
        "              bf16 b16  ok   1,500/s  ±0 %     2.0x    21.3 ms",
    ]
    (group, _) = jobs(cells_of(map(Process.of, records)))
    assert group.gains[0].ratio == pytest.approx(2.0)


def test_the_reference_is_first_in_the_plan_whatever_ran_first_or_failed():
    a, b, c = of_rate(1000.0), of_rate(1500.0, **BF16), of_rate(3000.0, precision=Precision.fp16)
    lines = lines_of([b, c, a, b, c], plan=[a, b, c])
    assert [re.findall(r"[\d.]+x", line) for line in lines[-5:]] == [[], ["2.0x"], [], ["1.5x"], ["3.0x"]]


def test_with_repeats_a_line_has_the_speed_and_the_gain_of_its_own_process():
    rates = [(1000.0, 2000.0), (1100.0, 1650.0)]
    records = [
        of_rate(rate, repeat=repeat, **changes)
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


def test_a_doubt_is_marked_also_that_of_the_reference():
    doubted = make_record(measurement=make_measurement(warnings=["an odd layer"]))
    assert [line.count("!") for line in lines_of([doubted, of_rate(5000.0, **BF16)])] == [0, 1, 1]


def test_no_setting_that_differs_is_cut_on_a_narrow_terminal():
    models = [ModelSpec(name=f"a_network_of_a_long_name_{number}", args={"units": 10**number}) for number in (1, 2)]
    cells = [make_cell(model=model, seed=seed) for model in models for seed in (0, 1)]
    named = labels([*cells, *(make_cell(model=model, threads=1) for model in models)])
    records = [of_rate(100.0, named[cell.id], model=cell.model, seed=cell.seed) for cell in cells]
    for width in (20, 40, 80, 120):
        _, *told = lines_of(records, width)
        names = [line.strip() for line in told if "a_network" in line]
        assert len(names) == len(set(names)) == 2
        assert sum("s1" in line for line in told) == 2
        assert sum("100/s" in line for line in told) == 4
        assert max(map(len, told)) <= max(width, 40)


def test_what_a_cell_served_is_whole_and_when_a_target_was_reached():
    served = make_served()
    text = " ".join(lines_of([served], 60))
    for words in ("mlp", "server 50rps", "49.5 requests/s", "p99 40.2 ms", "sure pass: p99 at most 50 ms"):
        assert words in text
    line = lines_of([make_trained(12.0), make_trained(11.0, seed=1)])[-1]
    assert line == "       fp32 b32 s1  ok  reached in 11.0 s, 5.00 epochs !"


@pytest.mark.parametrize("status", [Status.failed, Status.invalid, Status.oom])
def test_a_cell_that_is_not_ok_has_its_reason_and_no_speed(status):
    (line,) = lines_of([make_record(status=status)], reason="for [a] reason")
    assert line == f"  mlp  infer  pytorch cpu fp32 b32  {status}  for [a] reason"


def test_each_record_has_its_place_in_the_plan_looked_up_once(monkeypatch):
    keys = []
    monkeypatch.setattr(Cell, "key_without", lambda cell, names: keys.append(cell) or str(cell.batch_size))
    records = [of_rate(1000.0, batch_size=size) for size in range(1, 21)]
    lines_of(records[10:], known=records[:10], plan=records)
    assert len(keys) <= 60
