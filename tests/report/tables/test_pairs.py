from accelbench.report.tables import pairs
from accelbench.schema.measurement import Evaluation
from accelbench.schema.vocab import Protocol
from report.tables.rows import texts


def test_equal_accuracies_are_judged_by_the_interval():
    assert pairs.verdict(-0.004, 0.006) == "equal within 1 point"
    assert pairs.verdict(-0.005, 0.015) == "undecided: more seeds"
    assert pairs.verdict(0.02, 0.04) == "different"
    assert pairs.verdict(0.0, 0.0) == "equal within 1 point"


def test_accuracies_of_equal_settings_alone_are_compared(read, maker):
    def trained(device, seed, accuracy, **changes):
        cell = maker.cell(device=device, seed=seed, protocol=Protocol.fit, **changes)
        return maker.ok(cell, 100, evaluation=Evaluation(num_samples=9, seconds=1, loss=0.1, accuracy=accuracy))

    records = [trained(device, seed, 0.97 + seed / 1000) for device in ("cpu", "xla_cpu") for seed in range(4)]
    records += [trained("gpu", seed, 0.5, batch_size=32) for seed in range(4)]
    (row,) = texts(pairs.accuracies(read(records)))
    assert (row["devices"], row["seeds"], row["accuracies (%)"]) == ("cpu less xla_cpu", "4 and 4", "97.2 and 97.2")
    assert row["verdict"] == "equal within 1 point"
