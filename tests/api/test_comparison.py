import pytest

import accelbench
from accelbench.schema import record as records
from accelbench.schema.cell import Precision
from accelbench.schema.measurement import Block
from fakes import make_cell, make_measurement, make_record

HERE = {"machine": {"cpu_name": "a CPU"}, "code": "c" * 64}
SPREAD = (0.99, 1.0, 1.01, 0.995, 1.005)


def write_side(folder, speed, minute, **changes):
    folder.mkdir(parents=True)
    for repeat, spread in enumerate(SPREAD):
        block = Block(num_steps=10, num_samples=320, seconds=0.1 / speed / spread)
        measured = make_measurement(blocks=[block] * 8)
        started = f"2026-11-20T{repeat:02}:{minute:02}:00.000+00:00"
        cell = make_cell(repeat=repeat, **changes)
        records.write(make_record(cell, measurement=measured, started_at=started, environment=HERE), folder)
    return folder


@pytest.fixture
def sides(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return write_side(tmp_path / "a", 1.0, 0), write_side(tmp_path / "b", 0.9, 30)


def test_folders_and_results_have_the_same_verdict(sides):
    by_folder = accelbench.compare(*sides)
    by_results = accelbench.compare(*map(accelbench.read, sides))
    (pair,), (other,) = by_folder, by_results
    assert (pair.label, pair.verdict) == (other.label, other.verdict)
    # Files may be read in another order than results have.
    assert (pair.ratio, pair.low, pair.high) == pytest.approx((other.ratio, other.low, other.high), rel=1e-3)
    assert pair.verdict == "slower"
    assert pair.low < pair.ratio < pair.high < 1
    assert pair.ratio == pytest.approx(0.9)
    assert by_folder.is_slower_by(0.05)
    assert not by_folder.is_slower_by(0.15)


def test_the_compared_settings_are_named(tmp_path, sides):
    other = write_side(tmp_path / "c", 2.0, 30, precision=Precision.bf16)
    comparison = accelbench.compare(sides[0], other)
    assert "Compared: precision: fp32 | bf16" in repr(comparison)
    assert "faster" in repr(comparison)


def test_the_margin_is_a_share_and_the_same_records_or_too_few_are_no_verdict(sides):
    assert accelbench.compare(*sides, margin=0.2)[0].verdict == "same"
    with pytest.raises(accelbench.UserError, match="margin=5: should be a share"):
        accelbench.compare(*sides, margin=5)
    with pytest.raises(accelbench.UserError, match="have 5 records in common"):
        accelbench.compare(sides[0], accelbench.read(sides[0]))
    for path in sorted(sides[1].glob("*.json"))[:2]:
        path.unlink()
    assert accelbench.compare(sides[0], accelbench.read(sides[1]))[0].verdict == "can't tell"
