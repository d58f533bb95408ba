import dataclasses
from pathlib import Path

import pytest

from accelbench.report import read
from accelbench.schema.cell import KerasSettings
from accelbench.schema.record import Record
from accelbench.schema.vocab import Device, Engine, Mode, Precision, Protocol, Status
from five_studies import comparison
from five_studies.comparison import PublishedComparison


@pytest.fixture
def compare(tmp_path: Path, maker):
    """From records to the comparison of one network per device."""

    def compare(
        records: list[Record], model: str = "mlp", study_name: str | None = "001"
    ) -> dict[str, PublishedComparison]:
        found = read.read(maker.suite(tmp_path, records, study=study_name))
        return {
            each.device: each for each in comparison.compare_with_published(found, Mode.train) if each.model == model
        }

    return compare


def test_speedup_is_cpu_time_over_device_time(compare, maker) -> None:
    found = compare([maker.ok(maker.cell(device="cpu"), 1000), maker.ok(maker.cell(device="gpu"), 34_000)])
    assert found["gpu"].speedup == pytest.approx(34)
    assert found["cpu"].time_s == pytest.approx(5 * 60_000 / 1000)
    assert found["gpu"].estimated


@pytest.mark.parametrize(
    "other",
    [{"precision": "bf16"}, {"batch_size": 256}, {"epochs": 1}, {"threads": 2}, {"protocol": Protocol.fit}],
)
def test_no_speedup_between_cells_that_differ_in_more_than_the_device(compare, maker, other) -> None:
    gpu = maker.ok(maker.cell(device="gpu", **other), 34_000)
    found = compare([maker.ok(maker.cell(device="cpu"), 1000), gpu])
    assert found["gpu"].time_s is not None
    assert found["gpu"].speedup is None


def test_no_speedup_between_data_sets(compare, maker) -> None:
    stand_in = maker.stand_in
    found = compare([maker.ok(maker.cell(), 1000), maker.ok(maker.cell(device="gpu"), 9000, data=stand_in)])
    assert found["gpu"].speedup is None


def test_the_nearest_cell_is_the_study_s_own_setting_not_the_fastest_nor_a_mean(compare, maker) -> None:
    cells = [
        maker.cell(precision=precision, batch_size=batch_size)
        for precision in ("bf16_mixed", "fp32")
        for batch_size in (32, 128, 1024)
    ]
    found = compare([maker.ok(cell, 1000 * (i + 1)) for i, cell in enumerate(cells)])
    ours = found["cpu"].ours
    assert (ours.cell.precision, ours.cell.batch_size) == (Precision.fp32, 128)
    assert found["cpu"].time_s == pytest.approx(300_000 / 5000)


def test_one_device_of_the_first_engine_stands_for_a_network_whatever_is_faster(compare, maker) -> None:
    one = maker.cell()
    keras = dataclasses.replace(one, engine=Engine.keras, keras=KerasSettings())
    two = dataclasses.replace(one, devices=2)
    found = compare([maker.ok(keras, 9000), maker.ok(two, 8000), maker.ok(one, 1000)])
    assert found["cpu"].ours.cell == one


def test_precision_counts_before_batch_and_measured_before_estimated(compare, maker) -> None:
    near = maker.ok(maker.cell(precision="bf16_mixed"), 1)
    far = maker.ok(maker.cell(batch_size=1024), 2)
    measured = maker.ok(maker.cell(batch_size=1024, protocol=Protocol.fit), 3)
    found = compare([near, far, measured])
    assert found["cpu"].ours.cell == measured.cell
    assert not found["cpu"].estimated


def test_the_autoencoder_is_compared_at_its_own_batch(compare, maker) -> None:
    records = [maker.ok(maker.cell("autoencoder", batch_size=size, epochs=1), size) for size in (32, 128)]
    assert compare(records, "autoencoder")["cpu"].ours.cell.batch_size == 32


def test_a_cell_that_is_not_ok_has_no_time_but_says_why(compare, maker) -> None:
    skipped = maker.record(maker.cell(device="gpu"), Status.skipped, reason="no GPU")
    found = compare([maker.ok(maker.cell(), 1000), skipped])
    assert found["gpu"].ours.record.reason == "no GPU"
    assert (found["gpu"].time_s, found["gpu"].speedup) == (None, None)


def test_an_ok_cell_goes_before_a_nearer_one_that_is_not(compare, maker) -> None:
    failed = maker.record(maker.cell(), Status.failed, reason="no")
    ok = maker.ok(maker.cell(batch_size=64), 10)
    assert compare([failed, ok])["cpu"].ours.cell == ok.cell


def test_published_speedups_are_those_of_the_study(compare, maker) -> None:
    found = compare([maker.ok(maker.cell("cnn"), 1000)], "cnn")
    assert found["gpu"].published.value == 36.711
    assert round(100 * (found["gpu"].published_speedup - 1)) == 3332  # as the study prints it
    assert set(found) == {Device.cpu, Device.gpu, Device.tpu}


def test_without_a_study_only_what_was_planned_is_compared(compare, maker) -> None:
    found = compare([maker.ok(maker.cell("resnet"), 1000)], "resnet", study_name=None)
    assert set(found) == {Device.cpu}
    assert found["cpu"].published is None
