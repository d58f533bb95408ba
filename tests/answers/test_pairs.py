import dataclasses

import pytest

from accelbench.answers.pairs import AXES, BATCH, DEVICE, ENGINE, OPTIONS, PRECISION, STEPS, WEIGHTS, pairs
from accelbench.schema.cell import KerasSettings, Options
from accelbench.schema.measurement import Epoch
from accelbench.schema.vocab import Allocator, Engine, KerasBackend, Mode, Protocol, Status

LAST, JEMALLOC = Options(channels_last=True), Options(allocator=Allocator.jemalloc)
BOTH = Options(channels_last=True, allocator=Allocator.jemalloc)


def keras(maker, **changes):
    return maker.cell(engine=Engine.keras, keras=KerasSettings(**changes))


def told(found):
    return {(pair.what, pair.value, pair.base_value): pytest.approx(pair.gap.ratio) for pair in found}


def test_a_pair_differs_in_one_setting_alone(cells, maker) -> None:
    rates = {("fp32", 8): 100, ("fp32", 32): 200, ("bf16", 8): 50, ("bf16", 32): 600}
    found = cells([maker.ok(maker.cell(precision=word, batch_size=size), rate) for (word, size), rate in rates.items()])
    assert told(pairs(found, PRECISION)) == {
        ("mlp train b8", "bf16", "fp32"): 0.5,
        ("mlp train b32", "bf16", "fp32"): 3.0,
    }
    assert told(pairs(found, BATCH)) == {
        ("mlp train", "batch 32", "batch 8"): 2.0,
        ("mlp train bf16", "batch 32", "batch 8"): 12.0,
    }
    assert not any(pairs(found, axis) for axis in AXES if axis not in (PRECISION, BATCH))


def test_engines_are_named_with_their_settings(cells, maker) -> None:
    made = [keras(maker), keras(maker, backend=KerasBackend.jax, jit_compile=True), maker.cell()]
    found = cells([maker.ok(cell, rate) for cell, rate in zip(made, (800, 2500, 1000), strict=True)])
    assert told(pairs(found, ENGINE)) == {
        ("mlp train b128", "keras", "lightning"): 0.8,
        ("mlp train b128", "keras jax", "lightning"): 2.5,
    }


def test_each_option_is_compared_alone_and_with_the_others(cells, maker) -> None:
    rates = {Options(): 1000, JEMALLOC: 1250, LAST: 800, BOTH: 1200}
    found = cells([maker.ok(maker.cell(options=options), rate) for options, rate in rates.items()])
    assert {(value, base): ratio for (_, value, base), ratio in told(pairs(found, OPTIONS)).items()} == {
        ("jemalloc", "no options"): 1.25,
        ("channels_last", "no options"): 0.8,
        ("channels_last + jemalloc", "no options"): 1.2,
        ("channels_last + jemalloc", "jemalloc"): 0.96,
        ("channels_last + jemalloc", "channels_last"): 1.5,
    }


@pytest.mark.parametrize(
    ("plain", "compiled", "seconds", "num"),
    [
        (640, 1280, 10, 100),
        (640, 1280, 10.01, 101),
        (640, 1280, 0, 0),
        (1280, 1280, 10, float("inf")),
        (9, 8, None, None),
    ],
)
def test_compiling_pays_once_the_saved_time_equals_the_compile_time(
    cells, maker, plain, compiled, seconds, num
) -> None:
    on = maker.cell(options=Options(compile=True))
    (pair,) = pairs(cells([maker.ok(maker.cell(), plain), maker.ok(on, compiled, compile_s=seconds)]), OPTIONS)
    assert pair.steps_to_pay == num


def test_the_fewest_steps_and_drawn_weights_are_the_base(cells, maker) -> None:
    def cell(**changes):
        return maker.cell("resnet18", mode=Mode.infer, protocol=Protocol.steps, **changes)

    made = [(cell(steps=steps), rate) for steps, rate in ((512, 100), (1024, 99), (32, 110))]
    trained = dataclasses.replace(made[0][0].model, weights="pretrained")
    made.append((dataclasses.replace(made[0][0], model=trained), 101))
    found = cells([maker.ok(cell, rate) for cell, rate in made])
    assert {(value, base): ratio for (_, value, base), ratio in told(pairs(found, STEPS)).items()} == {
        ("512 steps", "32 steps"): 100 / 110,
        ("1,024 steps", "32 steps"): 0.9,
    }
    assert {(value, base): ratio for (_, value, base), ratio in told(pairs(found, WEIGHTS)).items()} == {
        ("pretrained", "drawn"): 1.01
    }


@pytest.mark.parametrize(
    "other",
    [{"precision": "bf16"}, {"batch_size": 64}, {"mode": Mode.infer}, {"threads": 1}, {"device": "xla_cpu"}],
)
def test_cells_that_differ_in_anything_else_are_no_pair(cells, maker, other) -> None:
    made = dataclasses.replace(maker.cell(**other), engine=Engine.keras, keras=KerasSettings())
    assert pairs(cells([maker.ok(maker.cell(), 1000), maker.ok(made, 800)]), ENGINE) == []


def test_what_two_machines_or_data_sets_measured_is_no_pair(cells, maker) -> None:
    here, faster = maker.ok(maker.cell(), 100), maker.ok(maker.cell(precision="bf16"), 900)
    there, faster = (
        dataclasses.replace(each, environment={"machine": {"cpu_name": "Other"}}) for each in (here, faster)
    )
    other_data = maker.ok(maker.cell(precision="bf16"), 900, data=maker.stand_in)
    (pair,) = pairs(cells([here, there, faster, other_data]), PRECISION)
    assert pair.gap.ratio == pytest.approx(9.0)


def test_a_single_epoch_and_failed_cells_are_no_pair(cells, maker) -> None:
    for num, is_pair in ((1, False), (3, True)):
        fit = {"protocol": Protocol.fit, "epochs": num}
        epochs = [Epoch(seconds=1.0, num_samples=1000)] * num
        made = [maker.ok(maker.cell(precision=word, **fit), 1000, epochs=epochs) for word in ("fp32", "bf16")]
        assert bool(pairs(cells(made), PRECISION)) == is_pair
    failed = maker.record(maker.cell(precision="bf16"), Status.failed, reason="no")
    assert pairs(cells([maker.ok(maker.cell(), 100), failed]), PRECISION) == []


def test_devices_are_compared_with_the_cpu(cells, maker) -> None:
    found = cells([maker.ok(maker.cell(device=device), rate) for device, rate in (("gpu", 500), ("cpu", 10))])
    assert told(pairs(found, DEVICE)) == {("mlp train b128", "gpu", "cpu"): 50.0}
