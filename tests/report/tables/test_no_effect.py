from dataclasses import replace

from accelbench.report.tables import no_effect
from accelbench.schema.vocab import Protocol
from report.conftest import inferring
from report.tables.rows import texts


def test_cells_that_differ_in_steps_or_weights_alone_are_compared(read, maker):
    records = [
        inferring(maker, "resnet18", device, rate=rate, protocol=Protocol.steps, steps=steps)
        for device, steps, rate in (("cpu", 512, 100), ("cpu", 1024, 99), ("cpu", 32, 110), ("gpu", 512, 900))
    ]
    cell = records[0].cell
    records.append(maker.ok(replace(cell, model=replace(cell.model, weights="pretrained")), 101, data=None))
    rows = texts(no_effect.table(read(records, study="000")))
    assert [(row["setting"], row["from"], row["to"], row["ratio (x)"]) for row in rows] == [
        ("steps", "32", "512", "0.9091"),
        ("steps", "32", "1,024", "0.9000"),
        ("weights", "drawn", "pre-trained", "1.010"),
    ]


def test_windows_have_no_number_of_steps(read, maker):
    records = [inferring(maker, "resnet18", rate=rate, seed=seed) for seed, rate in ((0, 100), (1, 99))]
    assert no_effect.table(read(records, study="000")) is None
