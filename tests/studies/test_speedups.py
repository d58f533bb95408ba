from five_studies import raw, speedups
from report.conftest import inferring
from report.rows import texts


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
    def means(devices, time):
        fast, slow = (raw.compared(machine) for machine in devices)
        return f"{raw.times_as_fast(fast, slow, time):.2f}"

    # The study's own figures, of the runs that its code takes.
    of = [(raw.A100, raw.EPYC), (raw.TPU_V2, raw.EPYC), (raw.A100, raw.TPU_V2)]
    assert [means(devices, "launch_ms") for devices in of] == ["744.41", "48.28", "15.42"]
    records = [inferring(maker, "resnet18", device, rate=rate) for device, rate in (("gpu", 500), ("tpu", 100))]
    sweep = read(records, study="000")
    rows = [list(row.values()) for row in texts(speedups.headlines(sweep))]
    assert [row[:4] for row in rows] == [
        ["gpu over cpu", "744.41", "127.0", "124.1"],
        ["tpu over cpu", "48.28", "0.8386", "0.8192"],
        ["gpu over tpu", "15.42", "151.5", "151.5"],
    ]
    assert rows[2][4:] == ["5.00", "5.00", "1"]
    assert speedups.claim(sweep).endswith("the same runs give 127.0, 0.8386, 151.5. Here: gpu over tpu 5.00.")
    table = speedups.like_for_like(sweep)
    assert [[entry.text for entry in row] for row in table.rows] == [
        *(["gpu over cpu", "float32", "203", "186"], ["gpu over cpu", "float64", "70.8", "61.1"]),
        *(["tpu over cpu", "float32", "0.410", "0.395"], ["tpu over cpu", "float64", "12.2", "12.6"]),
        *(["gpu over tpu", "float32", "494", "470"], ["gpu over tpu", "float64", "5.78", "4.84"]),
    ]
    assert "TPU is 2.4 to 2.5 times as slow in float32, and 12 to 13 times as fast in float64" in table.notes[0]
    assert speedups.like_for_like(read(records, study="003")) is None
