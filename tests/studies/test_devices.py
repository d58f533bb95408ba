from five_studies import devices
from report.tables.rows import texts


def test_the_networks_and_devices_are_in_the_order_of_what_they_gain_in_the_study_and_here(read, maker) -> None:
    rates = {("mlp", "cpu"): 1000, ("mlp", "gpu"): 5000, ("cnn", "cpu"): 100, ("cnn", "gpu"): 50}
    sweep = read([maker.ok(maker.cell(*place, epochs=5), rate) for place, rate in rates.items()])
    cnn, mlp = texts(devices.order(sweep))[:2]
    assert (cnn["network"], cnn["published: fastest first"]) == ("cnn", "gpu (34.3), cpu (1.00), tpu (0.991)")
    assert [row["lightning: fastest first"] for row in (cnn, mlp)] == [
        "cpu (1.00), gpu (0.500)",
        "gpu (5.00), cpu (1.00)",
    ]
    assert devices.order(read([maker.ok(maker.cell(), 10)], study=None)) is None


def test_the_studys_devices_stand_before_ours(read, maker) -> None:
    table = devices.table(read([maker.ok(maker.cell("pets_cnn"), 10)], study="002"))
    assert [(row["whose"], row["name"]) for row in texts(table)] == [
        *(("published", "NVIDIA Tesla T4"), ("published", "Google Cloud TPU"), ("ours", "Example CPU")),
    ]
    assert texts(table)[-1]["what it has"] == "2 cores, 4 threads"
