from accelbench.schema.cell import Mode, Protocol
from five_studies import times
from report.rows import texts


def test_times_stand_beside_the_published_with_the_settings_of_ours(read, maker) -> None:
    fit = maker.ok(maker.cell(protocol=Protocol.fit), 20_000)
    window = maker.ok(maker.cell("cnn", device="xla_cpu", batch_size=64, epochs=10), 2000)
    table = times.table(read([fit, window]), Mode.train)
    (row,) = texts(table, "mlp", "cpu")
    assert (row["pytorch (s)"], row["time of"]) == ("15.0", "5 x 60,000 samples")
    assert row["ours: cells"] == "fp32, batch 128, pytorch, 5 x 60,000 samples, fit"
    assert (row["published (s)"], row["published: speed-up as the study prints it (%)"]) == ("71.622", "0")
    (row,) = texts(table, "cnn", "xla_cpu")
    assert row["pytorch (s)"] == "~300"
    assert (row["ours: cells"], row["published (s)"]) == ("fp32, batch 64, pytorch, window", "–")
    (gpu,) = texts(table, "cnn", "gpu")
    assert gpu["ours: cells"] == "not planned"
    assert gpu["published: speed-up as the study prints it (%)"] == "3,332"
    assert "(CPU time / device time - 1) x 100 %" in " ".join(table.notes)
    (assumed,) = texts(
        times.table(read([maker.ok(maker.cell("pets_cnn"), 100)], study="002"), Mode.train), "pets_cnn", "gpu"
    )
    assert assumed["published with"] == "fp32, batch 32 (assumed), 10 epochs (assumed)"
