import dataclasses

import pytest

from accelbench.answers.gaps import AXES, BATCH, DEVICE, ENGINE, OPTIONS, PRECISION, pairs, summary
from accelbench.schema.cell import Allocator, Engine, KerasSettings, Mode, Options, Status

LAST, BOTH = Options(channels_last=True), Options(channels_last=True, allocator=Allocator.jemalloc)


@pytest.fixture
def told(cells, maker):
    """From cells and their rates: of each pair what it is, the two values, and the ratio."""

    def told(axis, *made):
        found = pairs(cells([maker.ok(cell, rate) for cell, rate in made]), axis)
        return {(pair.what, pair.value, pair.base_value): pytest.approx(pair.gap.ratio) for pair in found}

    return told


def test_a_pair_differs_in_one_setting_alone(told, maker) -> None:
    rates = {("fp32", 8): 100, ("fp32", 32): 200, ("bf16", 8): 50, ("bf16", 32): 600}
    made = [(maker.cell(precision=word, batch_size=size), rate) for (word, size), rate in rates.items()]
    assert told(PRECISION, *made) == {
        ("mlp train, PyTorch fp32 b8", "bf16", "fp32"): 0.5,
        ("mlp train, PyTorch fp32 b32", "bf16", "fp32"): 3.0,
    }
    sizes = ("batch 32", "batch 8")
    assert told(BATCH, *made) == {
        ("mlp train, PyTorch fp32", *sizes): 2.0,
        ("mlp train, PyTorch bf16", *sizes): 12.0,
    }
    assert not any(told(axis, *made) for axis in AXES if axis not in (PRECISION, BATCH))


def test_engines_and_options_are_named_with_their_settings_and_devices_compared_with_the_cpu(told, maker) -> None:
    compiled = KerasSettings(jit_compile=True)
    keras, on_xla = (maker.cell(engine=Engine.keras, keras=settings) for settings in (KerasSettings(), compiled))
    assert told(ENGINE, (keras, 800), (on_xla, 2500), (maker.cell(), 1000)) == {
        ("mlp train, PyTorch fp32 b128", "keras", "pytorch"): 0.8,
        ("mlp train, PyTorch fp32 b128", "keras jit_compile", "pytorch"): 2.5,
    }
    found = told(DEVICE, (maker.cell(device="gpu"), 500), (maker.cell(), 10))
    assert found == {("mlp train, PyTorch fp32 b128", "gpu", "cpu"): 50.0}
    rates = {Options(): 1000, LAST: 800, BOTH: 1200}
    found = told(OPTIONS, *((maker.cell(options=options), rate) for options, rate in rates.items()))
    assert {key[1:]: ratio for key, ratio in found.items()} == {
        ("channels_last", "no options"): 0.8,
        ("channels_last + jemalloc", "no options"): 1.2,
    }


def test_cells_that_differ_in_anything_else_or_were_measured_elsewhere_are_no_pair(cells, told, maker) -> None:
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


def test_a_summary_names_both_values_also_where_neither_is_faster(cells, maker) -> None:
    made = [maker.ok(maker.cell(precision=precision), rate) for precision, rate in (("fp32", 100), ("bf16", 101))]
    assert summary(pairs(cells(made), PRECISION), "bf16", "fp32") == "bf16 and fp32: 1 pair (1 can't tell)"
