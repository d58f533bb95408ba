import dataclasses

import pytest

from accelbench.schema.cell import KerasSettings
from accelbench.schema.vocab import Device, Engine, Mode, Protocol, Status
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
    assert (found["gpu"].speedup, found["gpu"].estimated) == (pytest.approx(34), True)
    assert found["cpu"].time_s == pytest.approx(5 * 60_000 / 1000)


@pytest.mark.parametrize(
    "other",
    [{"precision": "bf16"}, {"batch_size": 256}, {"epochs": 1}, {"threads": 2}, {"protocol": Protocol.fit}, "stand-in"],
)
def test_no_speedup_between_cells_that_differ_in_more_than_the_device(compare, maker, other) -> None:
    changes, data = ({}, {"data": maker.stand_in}) if other == "stand-in" else (other, {})
    gpu = maker.ok(maker.cell(device="gpu", **changes), 34_000, **data)
    found = compare([maker.ok(maker.cell(device="cpu"), 1000), gpu])["gpu"]
    assert (found.time_s is None, found.speedup) == (False, None)


def test_the_nearest_cell_is_the_study_s_own_setting_not_the_fastest_nor_a_mean(compare, maker) -> None:
    def nearest(*cells, model="mlp"):
        """Each of these is faster than the one before."""
        return compare([maker.ok(cell, 1000 * (i + 1)) for i, cell in enumerate(cells)], model)["cpu"]

    batches = [(word, size) for word in ("bf16_mixed", "fp32") for size in (32, 128, 1024)]
    cells = [maker.cell(precision=word, batch_size=size) for word, size in batches]
    found = nearest(*cells)
    assert (found.ours.cell, found.time_s) == (cells[4], pytest.approx(300_000 / 5000))
    one = maker.cell()
    keras = dataclasses.replace(one, engine=Engine.keras, keras=KerasSettings())
    assert nearest(one, dataclasses.replace(one, devices=2), keras).ours.cell == one
    # Precision counts before batch, and measured before estimated.
    measured = maker.cell(batch_size=1024, protocol=Protocol.fit)
    found = nearest(maker.cell(precision="bf16_mixed"), maker.cell(batch_size=1024), measured)
    assert (found.ours.cell, found.estimated) == (measured, False)
    sizes = [maker.cell("autoencoder", batch_size=size, epochs=1) for size in (32, 128)]
    assert nearest(*sizes, model="autoencoder").ours.cell == sizes[0]
    skipped = maker.record(one, Status.skipped, reason="no GPU")  # an ok cell goes before a nearer one that is not
    assert compare([skipped, maker.ok(maker.cell(batch_size=64), 10)])["cpu"].ours.cell.batch_size == 64
    assert (compare([skipped])["cpu"].ours.record.reason, compare([skipped])["cpu"].time_s) == ("no GPU", None)


def test_published_speedups_are_those_of_the_study(compare, maker) -> None:
    found = compare([maker.ok(maker.cell("cnn"), 1000)], "cnn")
    assert found["gpu"].published.value == 36.711
    assert round(100 * (found["gpu"].published_speedup - 1)) == 3332  # as the study prints it
    assert set(found) == {Device.cpu, Device.gpu, Device.tpu}
    found = compare([maker.ok(maker.cell("resnet"), 1000)], "resnet", study=None)
    assert {device: each.published for device, each in found.items()} == {Device.cpu: None}
