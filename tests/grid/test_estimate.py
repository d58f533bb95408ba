import pytest

from accelbench.grid import estimate, plan
from accelbench.schema import record
from accelbench.schema.conditions import Data
from accelbench.schema.record import Record
from accelbench.schema.vocab import Device, Engine, Protocol, Status
from fakes import SHORT, make_cell, make_measurement

DATA = Data(name="mnist", digest="d" * 64, source="random pixels", stand_in=True)
FINGERPRINTS = dict.fromkeys(Engine, {"machine": "this", "code": "c0de"})


def planned(*cells):
    return plan.plan(cells, DATA, FINGERPRINTS)


def make_record(cell, wall_s, status=Status.ok):
    (item,) = planned(cell)
    reason = None if status == Status.ok else "a reason"
    return Record(
        cell=cell,
        identity=item.identity,
        status=status,
        reason=reason,
        started_at="2026-11-20T09:00:00.000+00:00",
        wall_s=wall_s,
        environment={},
        measurement=make_measurement() if status == Status.ok else None,
    )


def test_a_cell_takes_as_long_as_last_time(tmp_path):
    fit = make_cell(protocol=Protocol.fit)
    record.write(make_record(fit, 123.0), tmp_path / "runs" / "a")
    for number, text in enumerate(["{", "[]", "{}", '{"cell_id": 3, "wall_s": 1}']):
        (tmp_path / "runs" / "a" / f"{number:012}-00000000.json").write_text(text)
    recorded_s = estimate.recorded_durations_s([tmp_path / "runs", tmp_path / "results"], {fit.id, "000000000003"})
    assert estimate.estimate_s(fit, recorded_s[fit.id]) == 123.0
    assert estimate.estimate_s(fit, None) is None  # whole epochs that were never run here


def test_how_long_a_skip_took_says_nothing_of_a_run(tmp_path):
    fit = make_cell(protocol=Protocol.fit)
    record.write(make_record(fit, 0.0, Status.skipped), tmp_path)
    assert estimate.recorded_durations_s([tmp_path], {fit.id}) == {}


def test_a_window_takes_its_bounds_and_some_overhead():
    windows = SHORT.warmup_s + SHORT.block_s + SHORT.measure_s + SHORT.latency_s + make_cell().breakdown_s
    assert estimate.estimate_s(make_cell(), None) == pytest.approx(windows + estimate.OVERHEAD_S)
    on_xla = make_cell(device=Device.xla_cpu)
    assert estimate.estimate_s(on_xla, None) == pytest.approx(windows + estimate.OVERHEAD_S + estimate.XLA_COMPILE_S)


def test_only_the_records_of_the_cells_asked_for_count(tmp_path):
    fit, other = make_cell(protocol=Protocol.fit), make_cell(batch_size=8)
    record.write(make_record(fit, 123.0), tmp_path)
    record.write(make_record(other, 4.0), tmp_path)
    assert estimate.recorded_durations_s([tmp_path], {fit.id}) == {fit.id: 123.0}


def test_a_total_says_how_many_cells_are_of_unknown_length():
    total = estimate.TotalEstimate.of([30.0, None, 22.4]) + estimate.TotalEstimate.of([None])
    assert str(total) == "about 52 s, and 2 of unknown length"
    assert str(estimate.TotalEstimate.of([3.0])) == "about 3 s"
