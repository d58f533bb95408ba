from five_studies import devices
from report.tables.rows import texts


def test_the_studys_devices_stand_before_ours(read, maker) -> None:
    table = devices.table(read([maker.ok(maker.cell("pets_cnn"), 10)], study="002"))
    assert [(row["whose"], row["name"]) for row in texts(table)] == [
        *(("published", "NVIDIA Tesla T4"), ("published", "Google Cloud TPU"), ("ours", "Example CPU")),
    ]
    assert texts(table)[-1]["what it has"] == "2 cores, 4 threads"
