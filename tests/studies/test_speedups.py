from statistics import fmean

import pytest

from five_studies import published, speedups
from report.conftest import inferring
from report.tables.rows import texts


def test_speedups_are_of_cells_that_differ_only_in_the_device(read, maker):
    cells = [("gpu", "fp32", 500), ("gpu", "bf16", 900), ("tpu", "fp32", 200), ("cpu", "fp32", 10)]
    records = [inferring(maker, "resnet18", device, precision, rate) for device, precision, rate in cells]
    table = speedups.table(read(records, study="000"))
    ours = {row["devices"]: row["speed-up (x)"] for row in texts(table, "resnet18") if row["whose"] == "ours"}
    assert ours == {"gpu over cpu": "50.0", "tpu over cpu": "20.0", "gpu over tpu": "2.50"}
    theirs = {row["devices"] for row in texts(table, "resnet18") if row["whose"] == "published"}
    assert theirs == set(ours)


def test_printed_speedups_stand_beside_ours_of_the_same_batch(read, maker, scaled):
    def rows(sweep):
        return [(row["whose"], row["speed-up (x)"], row["batch"]) for row in texts(speedups.table(sweep))]

    published = [("published", "4.95", "8"), ("published", "6.97", "16"), ("published", "4 to 6", "–")]
    ours = [("ours", "5.00", batch) for batch in ("1", "8", "16")]
    assert rows(scaled) == [*ours[:2], published[0], ours[2], *published[1:]]
    # Study 002's ratio needs no CPU.
    records = [maker.ok(maker.cell("pets_cnn", device), rate) for device, rate in (("gpu", 100), ("tpu", 400))]
    assert rows(read(records, study="002")) == [
        *(("ours", "4.00", "128"), ("published", "5", "–"), ("published", "4.83", "–")),
    ]


def test_the_headline_stands_beside_what_its_raw_data_gives(read, maker):
    times = {
        device: fmean(e.value for e in published.load("000") if (e.metric, e.device) == ("time_per_image", device))
        for device in ("cpu", "gpu", "tpu")
    }
    records = [inferring(maker, "resnet18", device, rate=rate) for device, rate in (("gpu", 500), ("tpu", 100))]
    rows = texts(speedups.headlines(read(records, study="000")))
    shown = {row["devices"]: (row["published (x)"], row["from its raw data, end to end (x)"]) for row in rows}
    assert shown == {
        "gpu over cpu": ("744.41", "127"),
        "tpu over cpu": ("48.28", "0.84"),
        "gpu over tpu": ("15.42", "151"),
    }
    # The rows here leave out the study's CPU cells of ten steps.
    assert times["cpu"] / times["gpu"] == pytest.approx(127, rel=0.03)
    assert times["cpu"] / times["tpu"] == pytest.approx(0.84, rel=0.03)
    assert times["tpu"] / times["gpu"] == pytest.approx(151, rel=0.005)
    (ours,) = (row for row in rows if row["devices"] == "gpu over tpu")
    assert (ours["ours: lowest (x)"], ours["ours: pairs of cells"]) == ("5.00", "1")
