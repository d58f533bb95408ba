import dataclasses
import math
import re

import pytest

from accelbench.answers.comparison import difference
from accelbench.answers.gaps import AXES, BATCH, DEVICE, ENGINE, OPTIONS, PRECISION, Word, gap, pairs, summary
from accelbench.answers.sureness import SpeedRatio, Verdict, are_interleaved, compare_processes
from accelbench.schema.cell import Allocator, Engine, KerasSettings, Mode, Options, Status
from accelbench.schema.measurement import Block
from answers.conftest import cells, maker, process


def compare(first, second):
    return compare_processes(*(list(map(process, side)) for side in (first, second)), anyway=True)


def test_the_ratio_is_of_the_medians_and_of_the_second_over_the_first():
    assert process(300.0).rates == pytest.approx([300.0] * 3)
    assert process(300.0, status=Status.invalid).rates == []
    first = [[100.0, 100.0, 1.0]] * 5
    ratio = compare(first, [[110.0, 110.0, 5000.0]] * 6)
    assert (ratio.num_first, ratio.num_second) == (5, 6)
    assert ratio.ratio == ratio.low == ratio.high == pytest.approx(1.1)
    # One process, 50 times slower than its others, makes A the slower one on average.
    ratio = compare([[100.0]] * 4 + [[2.0]], [[95.0], [96.0], [94.0], [95.0], [95.5]])
    logs = [math.log(value) for value in (ratio.low, ratio.ratio, ratio.high)]
    assert ratio.verdict() == Verdict.cant_tell
    assert logs[1] == pytest.approx((logs[0] + logs[2]) / 2, rel=0.3)  # the interval is that of this estimate
    assert re.fullmatch(r"\+108.0 % \(-\d\d.* % to \+\d.* %\), 5 and 5 processes", difference(ratio))


@pytest.mark.parametrize(
    ("low", "high", "margin", "verdict"),
    [
        *((0.99, 1.01, 0.02, "same"), (1.005, 1.015, 0.02, "same"), (1.005, 1.015, 0.0, "faster")),
        *((0.99, 1.03, 0.02, "can't tell"), (1.01, 1.03, 0.02, "faster"), (0.9, 0.99, 0.02, "slower")),
        *((0.9, 1.0, 0.02, "can't tell"), (1.0, 1.0, 0.0, "can't tell")),
    ],
)
def test_the_verdict_is_the_interval_in_a_word(low, high, margin, verdict):
    ratio = SpeedRatio(num_first=5, num_second=5, ratio=1.0, low=low, high=high)
    assert ratio.verdict(margin) == verdict


@pytest.mark.parametrize(
    ("order", "took"),
    [("ABABABABAB", True), ("ABBAABBAAB", True), ("AAAAABBBBB", False), ("AAABABBABB", True), ("AABBAABBAB", True)]
    + [("BBAAAABBBA", False), ("AAAABBBBBA", False), ("AB", True), ("BA", True), ("ABBBBB", True), ("AABBB", False)],
)
def test_turns_are_seen_from_when_each_began(order, took):
    sides = [[process(at=at) for at, side in enumerate(order) if side == which] for which in "AB"]
    assert are_interleaved(*sides) is took


@pytest.mark.parametrize(("node", "is_interleaved"), [("one", True), ("node{repeat}", True), ("node{is_first}", False)])
def test_on_several_nodes_both_sides_have_to_run_in_turns_on_each(node, is_interleaved):
    sides = ([], [])
    for at in range(12):
        name = node.format(repeat=at // 2 % 2, is_first=at == 0)
        sides[at % 2].append(process(at=at, environment={"node": {"name": name}}))
    assert are_interleaved(*sides) == is_interleaved


def sides(*rates: float, num: int = 1, is_interleaved: bool = True, disturbed: int = 0):
    """Two cells of `num` processes each, interleaved or one cell after the other, at these speeds."""
    records = maker.interleaved(dict(zip(("fp32", "bf16"), rates, strict=True)), num, 0.001)
    records[1 : 2 * disturbed : 2] = map(maker.beside_others, records[1 : 2 * disturbed : 2])
    if not is_interleaved:
        records = [maker.at(record, 10 * (i % 2) + i // 2) for i, record in enumerate(records)]
    return cells(records)


def test_one_process_a_side_is_never_a_proof() -> None:
    assert gap(*sides(1000, 2000)).how_sure == gap(*sides(2000, 1000)).how_sure == "likely"
    assert gap(*sides(1000, 1150)).how_sure == "can't tell: within the usual spread between runs"
    assert gap(*sides(1000, 1010)).how_sure == "can't tell: the intervals overlap"


def test_five_interleaved_processes_tell() -> None:
    one, other = sides(2000, 1000, num=5)
    there, back = gap(one, other), gap(other, one)
    assert there.how_sure.startswith("sure: 2.00 to 2.00 times")
    assert back.how_sure.startswith("sure: 0.49")
    assert there.ratio == pytest.approx(one.speed / other.speed) == 1 / back.ratio
    assert there.text == "2.00 times as fast"
    assert gap(*sides(1000, 1001, num=5)).how_sure.startswith("same: ")
    assert gap(*sides(1000, 2000, num=5, is_interleaved=False)).word == Word.likely


def test_nothing_is_sure_or_likely_if_other_programs_disturbed_half_of_the_processes() -> None:
    assert gap(*sides(1300, 1000, num=5, disturbed=2)).word == Word.sure
    for num, disturbed in ((1, 1), (5, 3)):
        found = gap(*sides(1300, 1000, num=num, disturbed=disturbed))
        assert found.how_sure == "can't tell: other programs used the CPU meanwhile"
    assert gap(*sides(6000, 1000, disturbed=1)).how_sure == "likely"


def test_large_differences_tell_where_there_are_few_blocks() -> None:
    def found(fast, change=lambda record: record):
        records = []
        for word, rate in (("bf16", fast), ("fp32", 1000)):
            blocks = [Block(num_steps=1, num_samples=128, seconds=128 / rate)] * 2
            records.append(change(maker.ok(maker.cell(precision=word), rate, blocks=blocks)))
        return gap(*cells(records)).how_sure

    assert found(1600) == "likely"
    assert found(1600, maker.beside_others) == "can't tell: other programs used the CPU meanwhile"
    assert found(1400) == "can't tell: too few blocks for an interval"


def told(axis, *made):
    """From cells and their rates: of each pair what it is, the two values, and the ratio."""
    found = pairs(cells([maker.ok(cell, rate) for cell, rate in made]), axis)
    return {(pair.what, pair.value, pair.base_value): pytest.approx(pair.gap.ratio) for pair in found}


def test_a_pair_differs_in_one_setting_alone() -> None:
    rates = {("fp32", 8): 100, ("fp32", 32): 200, ("bf16", 8): 50, ("bf16", 32): 600}
    made = [(maker.cell(precision=word, batch_size=size), rate) for (word, size), rate in rates.items()]
    assert told(PRECISION, *made) == {
        ("mlp train, PyTorch fp32 b8", "bf16", "fp32"): 0.5,
        ("mlp train, PyTorch fp32 b32", "bf16", "fp32"): 3.0,
    }
    sizes = ("batch 32", "batch 8")
    assert told(BATCH, *made) == {("mlp train, PyTorch fp32", *sizes): 2.0, ("mlp train, PyTorch bf16", *sizes): 12.0}
    assert not any(told(axis, *made) for axis in AXES if axis not in (PRECISION, BATCH))


def test_engines_and_options_are_named_with_their_settings_and_devices_compared_with_the_cpu() -> None:
    compiled = KerasSettings(jit_compile=True)
    keras, on_xla = (maker.cell(engine=Engine.keras, keras=settings) for settings in (KerasSettings(), compiled))
    assert told(ENGINE, (keras, 800), (on_xla, 2500), (maker.cell(), 1000)) == {
        ("mlp train, PyTorch fp32 b128", "keras", "pytorch"): 0.8,
        ("mlp train, PyTorch fp32 b128", "keras jit_compile", "pytorch"): 2.5,
    }
    found = told(DEVICE, (maker.cell(device="gpu"), 500), (maker.cell(), 10))
    assert found == {("mlp train, PyTorch fp32 b128", "gpu", "cpu"): 50.0}
    last, both = Options(channels_last=True), Options(channels_last=True, allocator=Allocator.jemalloc)
    rates = {Options(): 1000, last: 800, both: 1200}
    found = told(OPTIONS, *((maker.cell(options=options), rate) for options, rate in rates.items()))
    assert {key[1:]: ratio for key, ratio in found.items()} == {
        ("channels_last", "no options"): 0.8,
        ("channels_last + jemalloc", "no options"): 1.2,
    }


def test_cells_that_differ_in_anything_else_or_were_measured_elsewhere_are_no_pair() -> None:
    others = ({"precision": "bf16"}, {"batch_size": 64}, {"mode": Mode.infer}, {"threads": 1}, {"device": "xla_cpu"})
    for other in others:
        made = maker.cell(**other, engine=Engine.keras, keras=KerasSettings())
        assert told(ENGINE, (maker.cell(), 1000), (made, 800)) == {}
    here, faster = maker.ok(maker.cell(), 100), maker.ok(maker.cell(precision="bf16"), 900)
    there = dataclasses.replace(here, environment={"machine": {"cpu_name": "Other"}})
    stand_in = maker.ok(maker.cell(precision="bf16"), 900, data=maker.stand_in)
    failed = maker.record(maker.cell(precision="bf16"), Status.failed, reason="no")
    for both in ([there, faster], [here, stand_in], [here, failed]):
        assert pairs(cells(both), PRECISION) == []
    close = pairs(cells([here, maker.ok(faster.cell, 101)]), PRECISION)
    assert summary(close, "bf16", "fp32") == "bf16 and fp32: 1 pair (1 can't tell)"
