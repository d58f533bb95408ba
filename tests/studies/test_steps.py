from dataclasses import replace

from accelbench.schema.cell import Status
from accelbench.schema.measurement import SystemSeries
from five_studies import batches, steps
from report.conftest import inferring
from report.rows import texts


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
    head = ["resnet50", "cpu", "fp32", "32"]
    assert [row[:4] for row in rows[:2]] == [head, head]  # the study's two CPUs
    assert [float(row[4]) for row in rows[:2]] == [27.0, 27.0]  # the median of its steps over 32
    assert [row[6] for row in rows] == ["98.47", "103.0", "–", "0.4906", "–"]
    assert rows[3][4:6] == ["–", "–"]  # it did not run
    assert rows[4][0] == "vgg16"


def loads(read, maker, device, precision, **series):
    system = SystemSeries(started_boot_s=0.0, t_s=[1.0, 2.0], values={name: [v, v] for name, v in series.items()})
    made = inferring(maker, "resnet18", device, precision, batch_size=16)
    record = replace(maker.ok(made.cell, 100, data=None, steady_boot_s=(0.5, 3.0)), system=system)
    return texts(steps.load_table(read([record], study="000")))


def test_a_gpus_load_stands_beside_the_published_and_a_cpus_is_of_all_its_cores(read, maker):
    figures = {"utilization_percent": 97, "power_w": 250, "temperature_c": 61, "sm_clock_mhz": 1410}
    (row,) = loads(read, maker, "gpu", "fp16", **{f"gpu_0_{name}": value for name, value in figures.items()})
    ours = [row[name] for name in ("utilisation (%)", "power (W)", "temperature (°C)", "clock (MHz)")]
    assert ours == ["97.0", "250", "61.0", "1,410"]
    assert float(row["published: power (W)"]) < 100  # a mean over three GPUs, two of which were idle
    assert row["published by"].endswith("mean of 3 GPUs")
    rows = loads(read, maker, "cpu", "fp32", cpu_utilization_percent=200.0)
    assert {row["utilisation (%)"] for row in rows} == {"50.0"}  # two of four
    assert {row["published: utilisation (%)"] for row in rows} >= {"0.800"}  # one core of 128


def test_the_best_batch_stands_beside_the_studys(scaled):
    ours = {"cpu": ("16", "300", "1.03"), "gpu": ("16", "1,500", "1.03")}
    theirs = {"cpu": ("8", "218", "1.00"), "gpu": ("16", "1,420", "1.32")}
    rows = texts(batches.table(scaled))
    for whose, best in (("ours", ours), ("published", theirs)):
        found = {row["device"]: tuple(row.values())[4:7] for row in rows if row["whose"] == whose}
        assert found == best
    named = [(row["device"], row["best for the memory"], row["largest batch"]) for row in rows]
    assert [row for row in named if row[1] != "–"] == [("gpu", "8", "16")]
