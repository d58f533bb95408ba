import dataclasses

import pytest

from accelbench.schema.cell import KerasSettings
from accelbench.schema.vocab import Device, Engine, Mode, Precision, Protocol, Status
from five_studies import comparison


@pytest.fixture
def compare(read):
    """From records to the comparison of one network per device."""

    def compare(records, model="mlp", study="001"):
        found = comparison.compare_with_published(read(records, study=study), Mode.train)
        return {each.device: each for each in found if each.model == model}

    return compare


def test_speedup_is_cpu_time_over_device_time(compare, maker) -> None:
    found = compare([maker.ok(maker.cell(device="cpu"), 1000), maker.ok(maker.cell(device="gpu"), 34_000)])
    assert found["gpu"].speedup == pytest.approx(34)
    assert found["cpu"].time_s == pytest.approx(5 * 60_000 / 1000)
    assert found["gpu"].estimated


@pytest.mark.parametrize(
    "other",
    [{"precision": "bf16"}, {"batch_size": 256}, {"epochs": 1}, {"threads": 2}, {"protocol": Protocol.fit}, "stand-in"],
)
def test_no_speedup_between_cells_that_differ_in_more_than_the_device(compare, maker, other) -> None:
    changes, data = ({}, {"data": maker.stand_in}) if other == "stand-in" else (other, {})
    gpu = maker.ok(maker.cell(device="gpu", **changes), 34_000, **data)
    found = compare([maker.ok(maker.cell(device="cpu"), 1000), gpu])
    assert found["gpu"].time_s is not None
    assert found["gpu"].speedup is None


def test_the_nearest_cell_is_the_study_s_own_setting_not_the_fastest_nor_a_mean(compare, maker) -> None:
    batches = [(word, size) for word in ("bf16_mixed", "fp32") for size in (32, 128, 1024)]
    cells = [maker.cell(precision=word, batch_size=size) for word, size in batches]
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


def test_an_ok_cell_goes_before_a_nearer_one_that_is_not_and_that_says_why(compare, maker) -> None:
    skipped = maker.record(maker.cell(), Status.skipped, reason="no GPU")
    ok = maker.ok(maker.cell(batch_size=64), 10)
    assert compare([skipped, ok])["cpu"].ours.cell == ok.cell
    found = compare([skipped])["cpu"]
    assert (found.ours.record.reason, found.time_s, found.speedup) == ("no GPU", None, None)


def test_published_speedups_are_those_of_the_study(compare, maker) -> None:
    found = compare([maker.ok(maker.cell("cnn"), 1000)], "cnn")
    assert found["gpu"].published.value == 36.711
    assert round(100 * (found["gpu"].published_speedup - 1)) == 3332  # as the study prints it
    assert set(found) == {Device.cpu, Device.gpu, Device.tpu}
    found = compare([maker.ok(maker.cell("resnet"), 1000)], "resnet", study=None)
    assert set(found) == {Device.cpu}
    assert found["cpu"].published is None
