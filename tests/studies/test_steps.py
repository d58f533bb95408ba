from dataclasses import replace

from accelbench.report import read
from accelbench.schema.vocab import Status
from five_studies import steps
from report.conftest import inferring


def test_published_times_stand_beside_ours_of_the_same_settings(tmp_path, maker):
    gpu = inferring(maker, "resnet50", "gpu", "tf32", batch_size=32)
    records = [
        inferring(maker, "resnet50", rate=50, batch_size=32),
        inferring(maker, "resnet50", precision="bf16", rate=99, batch_size=32),
        maker.record(gpu.cell, Status.skipped, reason="no GPU"),
        inferring(maker, "vgg16", rate=50, batch_size=32, side=64),  # of another input nothing was published
    ]
    table = steps.table(read.read(maker.suite(tmp_path, records, study="000")), "time_per_image")
    rows = [[entry.text for entry in row] for row in table.rows]
    head = ["resnet50", "cpu", "fp32", "32"]
    assert [row[:4] for row in rows[:2]] == [head, head]  # the study's two CPUs
    assert [float(row[4]) for row in rows[:2]] == [27.0, 27.0]  # the median of its steps over 32
    assert [row[6] for row in rows] == ["98.47", "103.0", "–", "0.4906", "–"]
    assert rows[3][4:6] == ["–", "skipped"]
    assert rows[4][0] == "vgg16"


def test_a_cell_of_which_too_few_steps_were_waited_for_says_so(tmp_path, maker):
    record = inferring(maker, "resnet50", rate=5, batch_size=32)
    short = replace(record, measurement=replace(record.measurement, latency_s=record.measurement.latency_s[:3]))
    table = steps.table(read.read(maker.suite(tmp_path, [short], study="000")), "time_per_image")
    why_not = table.headings.index("why not")
    assert {row[why_not].text for row in table.rows} == {steps.METRICS["time_per_image"].unknown}
