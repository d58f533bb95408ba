import dataclasses
from pathlib import Path

import pytest

from accelbench.report.read import read as read_sweep
from accelbench.report.tables import gains
from accelbench.schema.cell import KerasSettings, Options
from accelbench.schema.vocab import Engine, Protocol, Status


@pytest.fixture
def read(tmp_path: Path, maker):
    return lambda records: [read_sweep(maker.suite(tmp_path, records))]


def test_a_gain_is_the_speed_over_the_cell_that_differs_in_this_setting_alone(read, maker) -> None:
    cells = {
        (precision, size): maker.cell(precision=precision, batch_size=size)
        for precision in ("fp32", "bf16")
        for size in (8, 32)
    }
    rates = {("fp32", 8): 100, ("fp32", 32): 200, ("bf16", 8): 50, ("bf16", 32): 600}
    sweeps = read([maker.ok(cell, rates[key]) for key, cell in cells.items()])
    found = {(gain.what, gain.value): gain.ratio for gain in gains.gains(sweeps, gains.PRECISION)}
    assert found == {
        ("mlp train b8", "bf16"): pytest.approx(0.5),
        ("mlp train b32", "bf16"): pytest.approx(3.0),
    }
    found = {(gain.what, gain.value, gain.base_value): gain.ratio for gain in gains.gains(sweeps, gains.BATCH)}
    assert found == {
        ("mlp train", "batch 32", "batch 8"): pytest.approx(2.0),
        ("mlp train bf16", "batch 32", "batch 8"): pytest.approx(12.0),
    }
    assert gains.gains(sweeps, gains.DEVICE) == []
    assert gains.gains(sweeps, gains.ENGINE) == []


def test_engines_and_options_are_named_apart(read, maker) -> None:
    both = Options(compile=True)
    keras = maker.cell(engine=Engine.keras, keras=KerasSettings())
    sweeps = read(
        [
            maker.ok(maker.cell(), 100),
            maker.ok(keras, 300),
            maker.ok(maker.cell(options=both), 200),
        ]
    )
    (engine,) = gains.gains(sweeps, gains.ENGINE)
    assert (engine.what, engine.value, engine.base_value) == ("mlp train b128", "keras", "lightning")
    (option,) = gains.gains(sweeps, gains.OPTIONS)
    assert (option.value, option.base_value, option.ratio) == ("compile", "no options", pytest.approx(2.0))


def test_what_two_machines_measured_is_no_gain(read, maker) -> None:
    here = maker.ok(maker.cell(), 100)
    there = dataclasses.replace(
        maker.ok(maker.cell(), 300), environment={"machine": {"cpu_name": "Other"}}, identity="2" * 64
    )
    faster = dataclasses.replace(
        maker.ok(maker.cell(precision="bf16"), 900), environment={"machine": {"cpu_name": "Other"}}
    )
    sweeps = read([here, there, faster])
    (gain,) = gains.gains(sweeps, gains.PRECISION)
    assert gain.ratio == pytest.approx(3.0)
    for compared in (gains.DEVICE, gains.BATCH, gains.ENGINE, gains.OPTIONS):
        assert gains.gains(sweeps, compared) == []


def test_a_single_epoch_and_failed_cells_show_no_gain(read, maker) -> None:
    one = {"protocol": Protocol.fit, "epochs": 1}
    sweeps = read(
        [
            maker.ok(maker.cell(**one), 100),
            maker.ok(maker.cell(precision="bf16", **one), 300),
            maker.ok(maker.cell(), 100),
            maker.record(maker.cell(precision="bf16"), Status.failed, reason="no"),
        ]
    )
    assert gains.gains(sweeps, gains.PRECISION) == []


def test_processes_in_turns_give_the_ratio(read, maker) -> None:
    records = []
    for repeat in range(5):
        for side, (precision, rate) in enumerate((("fp32", 1000), ("bf16", 2000))):
            done = maker.ok(maker.cell(precision=precision, repeat=repeat), rate)
            started_at = f"2026-11-20T18:{2 * repeat + side:02}:00+00:00"
            records.append(dataclasses.replace(done, started_at=started_at))
    (gain,) = gains.gains(read(records), gains.PRECISION)
    assert (gain.ratio, gain.confidence.sureness) == (pytest.approx(2.0), "sure")
