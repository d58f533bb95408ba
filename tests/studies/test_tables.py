"""What studies/ adds to the report: published numbers beside ours, in tables and sentences."""

from dataclasses import replace

import pytest

from accelbench.schema.cell import Engine, Mode, Protocol, Status
from accelbench.schema.measurement import Epoch, Evaluation, SystemSeries
from five_studies import batches, beside, comparison, devices, frames, power, raw, speedups, steps, times, training
from report.conftest import inferring, texts


@pytest.fixture
def scaled(read, maker):
    """Study 003's sweep: three batches on each of two devices, of which one is five times as fast."""
    records = [
        inferring(maker, "scaling_cnn_small", device, rate=rate * gain, batch_size=batch)
        for device, gain in (("cpu", 1), ("gpu", 5))
        for batch, rate in ((1, 100), (8, 290), (16, 300))
    ]
    return read(records, study="003")


def columns(rows, *names):
    return [tuple(row[name] for name in names) for row in rows]


def loaded(maker, device, precision, batch_size=16, **series):
    """A record of a cell with this load."""
    system = SystemSeries(started_boot_s=0.0, t_s=[1.0, 2.0], values={name: [v, v] for name, v in series.items()})
    cell = inferring(maker, "resnet18", device, precision, batch_size=batch_size).cell
    return replace(maker.ok(cell, 100, data=None, steady_boot_s=(0.5, 3.0)), system=system)


def test_only_times_of_the_same_job_and_settings_are_compared_as_ratios_on_one_axis(read, maker):
    cells = [maker.cell(), maker.cell(device="gpu"), maker.cell("cnn", batch_size=64), maker.cell(mode=Mode.infer)]
    sweep = read([maker.ok(cell, rate) for cell, rate in zip(cells, (1000, 34_000, 500, 9000), strict=True)])
    found = beside.pairs(sweep)  # not of another batch, nor of inference alone, which is a part of testing
    pairs = [("mlp", "cpu", "~4.19"), ("mlp", "gpu", "~0.982")]
    assert [(each.network, each.device, each.own_ratio.text) for each in found] == pairs
    table = beside.table(found)
    ((slower,), (faster,)), (equal, label) = table.dots, table.axis[0]
    assert (label, slower.look, faster.place < equal < slower.place) == ("1", "cpu filled", True)
    assert beside.sentence(sweep, found).startswith(
        "Speed-ups in the study: gpu over cpu 2.77 to 34.3, tpu over cpu 0.962 to 1.01 times. Here: gpu over cpu 34.0. "
        "On the cpu, pytorch takes ~4.19 times as long as published (1 pair). On the gpu, "
    )


def test_the_studies_claims_devices_frames_and_batches_stand_beside_what_was_measured(read, maker, scaled):
    said = beside.sentence(scaled, beside.pairs(scaled))
    assert "gpu over cpu 4.95 to 6.97 times. Here: gpu over cpu 5.00." in said
    assert "Its best batch is 8; fastest here: on the cpu 16 (1.03 times batch 8, " in said
    names = ("its FPS", "ours: batches/s", "ours: images/s", "its speed-up (x)", "ours: speed-up (x)")
    cpu, gpu, *_ = columns(texts(frames.table(scaled)), *names)
    assert cpu == ("20 to 30", "36.2", "290", "–", "–")
    assert gpu == ("100 to 150", "181", "1,450", "4 to 6", "5.00")
    alone = read([maker.ok(maker.cell("pets_cnn", batch_size=32, epochs=10), 100)], study="002")
    assert beside.sentence(alone, beside.pairs(alone)) == (
        "Speed-ups in the study: tpu over gpu 4.83 to 5.00 times. Here: not measured. "
        "The study's job, 10 x 20,000 samples, takes ~2,000 s with pytorch on our cpu."
    )
    gpu, _, ours = [(*row.values(),)[:4] for row in texts(devices.table(alone))]
    assert gpu == ("published", "gpu", "NVIDIA Tesla T4", "40 streaming multiprocessors, 2,560 CUDA cores")
    assert ours == ("ours", "cpu", "a CPU", "2 cores, 4 threads")


def test_the_best_batch_stands_beside_the_studys(scaled):
    rows = texts(batches.table(scaled))
    assert {(row["whose"], row["device"]): tuple(row.values())[4:7] for row in rows} == {
        ("ours", "cpu"): ("16", "300", "1.03"),
        ("ours", "gpu"): ("16", "1,500", "1.03"),
        ("published", "cpu"): ("8", "218", "1.00"),
        ("published", "gpu"): ("16", "1,420", "1.32"),
    }
    named = columns(rows, "device", "best for the memory", "largest batch")
    assert [row for row in named if row[1] != "–"] == [("gpu", "8", "16")]


def test_printed_speedups_stand_beside_ours_of_the_same_batch(read, maker, scaled):
    def rows(sweep):
        return columns(texts(speedups.table(sweep)), "whose", "speed-up (x)", "batch")

    published = [("published", "4.95", "8"), ("published", "6.97", "16"), ("published", "4 to 6", "–")]
    ours = [("ours", "5.00", batch) for batch in ("1", "8", "16")]
    assert rows(scaled) == [*ours[:2], published[0], ours[2], *published[1:]]
    # Study 002's ratio needs no CPU.
    records = [maker.ok(maker.cell("pets_cnn", device), rate) for device, rate in (("gpu", 100), ("tpu", 400))]
    assert rows(read(records, study="002"))[0] == ("ours", "4.00", "128")


def test_the_headline_stands_beside_what_its_raw_data_gives(read, maker):
    of = [(raw.A100, raw.EPYC), (raw.TPU_V2, raw.EPYC), (raw.A100, raw.TPU_V2)]
    means = [raw.times_as_fast(*map(raw.compared, machines), "launch_ms") for machines in of]
    assert means == pytest.approx([744.41, 48.28, 15.42], abs=0.005)  # the study's own figures
    records = [inferring(maker, "resnet18", device, rate=rate) for device, rate in (("gpu", 500), ("tpu", 100))]
    sweep = read(records, study="000")
    assert [list(row.values())[:5] for row in texts(speedups.headlines(sweep))] == [
        ["gpu over cpu", "744.41", "127.0", "124.1", "–"],
        ["tpu over cpu", "48.28", "0.8386", "0.8192", "–"],
        ["gpu over tpu", "15.42", "151.5", "151.5", "5.00"],
    ]
    assert speedups.claim(sweep).endswith("the same runs give 127.0, 0.8386, 151.5. Here: gpu over tpu 5.00.")
    table = speedups.like_for_like(sweep)
    assert [entry.text for entry in table.rows[0]] == ["gpu over cpu", "float32", "203", "186"]
    assert "TPU is 2.4 to 2.5 times as slow in float32, and 12 to 13 times as fast in float64" in table.notes[0]


def test_published_times_stand_beside_ours_of_the_same_settings(read, maker):
    gpu = inferring(maker, "resnet50", "gpu", "tf32", batch_size=32)
    records = [
        inferring(maker, "resnet50", rate=50, batch_size=32),
        inferring(maker, "resnet50", precision="bf16", rate=99, batch_size=32),
        maker.record(gpu.cell, Status.skipped, reason="no GPU"),
        inferring(maker, "vgg16", rate=50, batch_size=32, side=64),  # of another input nothing was published
    ]
    table = steps.table(read(records, study="000"), "time_per_image")
    rows = [[entry.text for entry in row] for row in table.rows]
    assert [row[:4] for row in rows[:2]] == [["resnet50", "cpu", "fp32", "32"]] * 2  # the study's two CPUs
    assert [float(row[4]) for row in rows[:2]] == [27.0, 27.0]  # the median of its steps over 32
    assert [row[6] for row in rows] == ["98.47", "103.0", "–", "0.4906", "–"]
    assert rows[3][4:6] == ["–", "–"]  # it did not run


def test_the_load_and_the_powers_growth_stand_beside_the_published(read, maker):
    figures = {"utilization_percent": 97, "power_w": 250, "temperature_c": 61, "sm_clock_mhz": 1410}
    gpu = loaded(maker, "gpu", "fp16", **{f"gpu_0_{name}": value for name, value in figures.items()})
    (row,) = texts(steps.load_table(read([gpu], study="000")))
    ours = [row[name] for name in ("utilisation (%)", "power (W)", "temperature (°C)", "clock (MHz)")]
    assert ours == ["97.0", "250", "61.0", "1,410"]
    assert float(row["published: power (W)"]) < 100  # a mean over three GPUs, two of which were idle
    cpu = loaded(maker, "cpu", "fp32", cpu_utilization_percent=200.0)
    rows = texts(steps.load_table(read([cpu], study="000")))
    assert {row["utilisation (%)"] for row in rows} == {"50.0"}  # two of four
    assert {row["published: utilisation (%)"] for row in rows} >= {"0.800"}  # one core of 128
    grown = [("fp16", 16, 200.0), ("fp16", 32, 230.0), ("tf32", 16, 300.0)]
    busy = [loaded(maker, "gpu", *cell, gpu_0_power_w=w, gpu_0_utilization_percent=90.0) for *cell, w in grown]
    rows = texts(power.table(read(busy, study="000")))
    assert columns(rows, "published (x)", "from its raw data (x)", "ours: highest (x)") == [
        *(("1.11", "1.107", "1.15"), ("1.02", "1.016", "–"), ("1.01", "1.012", "–")),
        *(("1.28", "1.279", "1.50"), ("1.20", "1.205", "–")),
    ]


def test_times_stand_beside_the_published_with_the_settings_of_ours(read, maker):
    fit = maker.ok(maker.cell(protocol=Protocol.fit), 20_000)
    window = maker.ok(maker.cell("cnn", device="xla_cpu", batch_size=64, epochs=10), 2000)
    table = times.table(read([fit, window]), Mode.train)
    (row,) = texts(table, "mlp", "cpu")
    assert (row["pytorch (s)"], row["time of"]) == ("15.0", "5 x 60,000 samples")
    assert row["ours: cells"] == "fp32, batch 128, pytorch, 5 x 60,000 samples, fit"
    assert (row["published (s)"], row["published: speed-up as the study prints it (%)"]) == ("71.622", "0")
    (row,) = texts(table, "cnn", "xla_cpu")
    assert (row["pytorch (s)"], row["published (s)"]) == ("~300", "–")
    (gpu,) = texts(table, "cnn", "gpu")
    assert (gpu["ours: cells"], gpu["published: speed-up as the study prints it (%)"]) == ("not planned", "3,332")
    assumed = times.table(read([maker.ok(maker.cell("pets_cnn"), 100)], study="002"), Mode.train)
    (row,) = texts(assumed, "pets_cnn", "gpu")
    assert row["published with"] == "fp32, batch 32 (assumed), 10 epochs (assumed)"


def test_a_published_accuracy_stands_beside_ours_of_the_same_thing(read, maker):
    fit = maker.ok(maker.cell(batch_size=256, protocol=Protocol.fit), 1000)
    table = training.quality(read([maker.ok(maker.cell(), 1000), fit, maker.ok(maker.cell("autoencoder"), 1000)]))
    ours, theirs = columns(texts(table, "mlp"), "whose", "test accuracy (%)", "device")
    assert (ours, theirs) == (("ours", "97.7", "cpu"), ("published", "97.6", "not stated"))
    assert columns(texts(table, "autoencoder"), "training loss", "test loss") == [("0.0268", "0.0131")]
    tested = Evaluation(num_samples=10_000, seconds=1, loss=1.3, accuracy=0.51)
    trained = [Epoch(seconds=each, num_samples=50_000, loss=1.2, accuracy=0.55, evaluation=tested) for each in (20, 9)]
    cell = maker.cell("mlp_cifar10", protocol=Protocol.fit, epochs=2, batch_size=32)
    sweep = read([maker.ok(cell, 1000, epochs=trained, evaluation=tested)], study="004")
    rows = texts(training.quality(sweep), "mlp_cifar10")
    ours, *theirs = columns(rows, "training accuracy (%)", "test accuracy (%)")
    assert (ours, theirs) == (("55.0", "51.0"), [("54.97", "–"), ("55.23", "–")])
    (_, epoch) = beside.pairs(sweep)  # after the study's own job
    assert epoch.published.value == 44.5
    assert epoch.ours[Engine.pytorch].text == "20.1"  # the first epoch, with building


@pytest.fixture
def compare(read, maker):
    """From cells and their rates, or records, to the comparison of one network per device, and our own time."""

    def compare(*found, model="mlp", study="001", **measured):
        records = [maker.ok(*each, **measured) if isinstance(each, tuple) else each for each in found]
        compared = comparison.compare_with_published(read(records, study=study), Mode.train)
        return {each.device_text: (each, each.ours[Engine.pytorch]) for each in compared if each.model == model}

    return compare


def test_speedup_is_the_time_of_the_equal_cell_on_the_cpu_over_that_of_the_device(compare, maker):
    fit = maker.cell(protocol=Protocol.fit)  # which stands for the CPU
    _, gpu = compare((maker.cell(), 1000), (fit, 900), (maker.cell(device="gpu"), 34_000))["gpu"]
    assert (gpu.speedup, gpu.seconds.estimated) == (pytest.approx(34), True)


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


def test_no_speedup_between_cells_that_differ_in_more_than_the_device(compare, maker):
    of_stand_in = maker.ok(maker.cell(device="gpu"), 34_000, data=maker.stand_in)
    for gpu in (of_stand_in, (maker.cell(device="gpu", threads=2), 34_000)):
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
