from accelbench.report import read
from accelbench.report.tables import accuracy_by_device
from accelbench.report.tables.accuracy_by_device import verdict
from accelbench.schema.measurement import Evaluation
from accelbench.schema.vocab import Protocol
from accelbench.stats.means import MeanDifference


def test_equal_accuracies_are_judged_by_the_interval():
    assert verdict(MeanDifference(0.001, -0.004, 0.006)) == "equal within 1 %"
    assert verdict(MeanDifference(0.005, -0.005, 0.015)) == "undecided: more seeds"
    assert verdict(MeanDifference(0.03, 0.02, 0.04)) == "different"
    assert verdict(MeanDifference(0.0, 0.0, 0.0)) == "equal within 1 %"


def test_only_equal_settings_are_compared(tmp_path, maker):
    def trained(device, seed, accuracy, **changes):
        cell = maker.cell(device=device, seed=seed, protocol=Protocol.fit, **changes)
        return maker.ok(cell, 100, evaluation=Evaluation(num_samples=9, seconds=1, loss=0.1, accuracy=accuracy))

    records = [trained(device, seed, 0.97 + seed / 1000) for device in ("cpu", "xla_cpu") for seed in range(4)]
    records += [trained("gpu", seed, 0.5, batch_size=32) for seed in range(4)]
    table = accuracy_by_device.table(read.read(maker.suite(tmp_path, records)))
    assert [[entry.text for entry in row][3:6] for row in table.rows] == [["cpu less xla_cpu", "4", "4"]]
    assert table.rows[0][-1].text == "equal within 1 %"
