import pytest

from accelbench.schema.cell import Engine, Mode, Protocol, Status
from accelbench.schema.measurement import Epoch
from five_studies import comparison


@pytest.fixture
def compare(read, maker):
    """From cells and their rates, or records, to the comparison of one network per device, and our own time."""

    def compare(*found, model="mlp", study="001", **measured):
        records = [maker.ok(*each, **measured) if isinstance(each, tuple) else each for each in found]
        compared = comparison.compare_with_published(read(records, study=study), Mode.train)
        return {each.device_text: (each, each.ours[Engine.pytorch]) for each in compared if each.model == model}

    return compare


def test_speedup_is_cpu_time_over_device_time(compare, maker):
    found = compare((maker.cell(), 1000), (maker.cell(device="gpu"), 34_000))
    (_, cpu), (_, gpu) = found["cpu"], found["gpu"]
    assert (gpu.speedup, gpu.seconds.estimated) == (pytest.approx(34), True)
    assert cpu.seconds.value == pytest.approx(5 * 60_000 / 1000)
    # Over the equal cell, not over the one that stands for the CPU.
    fit = maker.cell(protocol=Protocol.fit)
    _, gpu = compare((maker.cell(), 1000), (fit, 900), (maker.cell(device="gpu"), 34_000))["gpu"]
    assert gpu.speedup == pytest.approx(34)


def test_a_time_is_of_the_studys_job_scaled_from_the_speed_of_a_cell_on_fewer_samples(compare, maker):
    small = {"data": maker.stand_in, "num_train_samples": 12_000}
    ((window, ours), *_) = compare((maker.cell(), 1000), **small).values()
    assert (window.job, ours.seconds.value, ours.seconds.estimated) == ("5 x 60,000 samples", pytest.approx(300), True)
    # The first epoch took 4 s longer, for its compilation: that is in the time once.
    epochs = [Epoch(seconds=12 + 4 * (each == 0), num_samples=12_000) for each in range(5)]
    ((_, ours), *_) = compare((maker.cell(protocol=Protocol.fit), 1000), epochs=epochs, **small).values()
    assert (ours.seconds.value, ours.seconds.estimated) == (pytest.approx(304), True)
    ((own, ours), *_) = compare((maker.cell(), 1000), study=None, **small).values()
    assert (own.job, ours.seconds.value) == ("5 x 12,000 samples", pytest.approx(60))


@pytest.mark.parametrize(
    "other",
    [{"precision": "bf16"}, {"batch_size": 256}, {"epochs": 1}, {"threads": 2}, {"protocol": Protocol.fit}, "stand-in"],
)
def test_no_speedup_between_cells_that_differ_in_more_than_the_device(compare, maker, other):
    changes, data = ({}, {"data": maker.stand_in}) if other == "stand-in" else (other, {})
    gpu = maker.ok(maker.cell(device="gpu", **changes), 34_000, **data)
    _, found = compare((maker.cell(device="cpu"), 1000), gpu)["gpu"]
    assert (found.seconds is None, found.speedup) == (False, None)


def test_the_nearest_cell_is_the_study_s_own_setting_not_the_fastest_nor_a_mean(compare, maker):
    def nearest(*cells, model="mlp"):
        """Each of these is faster than the one before."""
        return compare(*((cell, 1000 * (i + 1)) for i, cell in enumerate(cells)), model=model)["cpu"][1]

    batches = [(word, size) for word in ("bf16_mixed", "fp32") for size in (32, 128, 1024)]
    cells = [maker.cell(precision=word, batch_size=size) for word, size in batches]
    found = nearest(*cells)
    assert (found.cell.cell, found.seconds.value) == (cells[4], pytest.approx(300_000 / 5000))
    # Precision counts before batch, and measured before estimated.
    measured = maker.cell(batch_size=1024, protocol=Protocol.fit)
    found = nearest(maker.cell(precision="bf16_mixed"), maker.cell(batch_size=1024), measured)
    assert (found.cell.cell, found.seconds.estimated) == (measured, False)
    sizes = [maker.cell("autoencoder", batch_size=size, epochs=1) for size in (32, 128)]
    assert nearest(*sizes, model="autoencoder").cell.cell == sizes[0]
    skipped = maker.record(maker.cell(), Status.skipped, reason="no GPU")
    _, found = compare(skipped, (maker.cell(batch_size=64), 10))["cpu"]
    assert found.cell.cell.batch_size == 64  # an ok cell goes before a nearer one that is not
    _, found = compare(skipped)["cpu"]
    assert (found.cell.record.reason, found.seconds) == ("no GPU", None)
