from accelbench.report import read
from accelbench.report.tables import study_steps
from accelbench.schema.vocab import Status
from report.pictures.test_studies import inferring


def test_published_times_stand_beside_ours_of_the_same_settings(tmp_path, maker):
    gpu = inferring(maker, "resnet50", "gpu", "tf32", batch_size=32)
    records = [
        inferring(maker, "resnet50", rate=50, batch_size=32),
        inferring(maker, "resnet50", precision="bf16", rate=99, batch_size=32),
        maker.record(gpu.cell, Status.skipped, reason="no GPU"),
        inferring(maker, "vgg16", rate=50, batch_size=32, side=64),  # of another input nothing was published
    ]
    table = study_steps.table(read.read(maker.suite(tmp_path, records, study="000")), "time_per_image")
    rows = [[entry.text for entry in row] for row in table.rows]
    head = ["resnet50", "cpu", "fp32", "32"]
    assert [row[:4] for row in rows[:2]] == [head, head]  # the study's two CPUs
    assert [float(row[4]) for row in rows[:2]] == [27.0, 27.0]  # the median of its steps over 32
    assert [row[6] for row in rows] == ["98.47", "103.0", "–", "0.4906", "–"]
    assert rows[3][4:6] == ["–", "skipped"]
    assert rows[4][0] == "vgg16"
