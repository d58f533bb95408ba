import pytest
from scipy.stats import ttest_ind

from accelbench.report import read
from accelbench.report.tables import accuracy_by_device
from accelbench.report.tables.accuracy_by_device import Difference, difference
from accelbench.schema.measurement import Evaluation
from accelbench.schema.vocab import Protocol


def test_the_interval_is_welchs():
    one, other = [0.976, 0.978, 0.977, 0.979], [0.970, 0.974, 0.972]
    found = difference(one, other)
    theirs = ttest_ind(one, other, equal_var=False).confidence_interval()
    assert found.mean == pytest.approx(0.0055)
    assert (found.low, found.high) == pytest.approx((theirs.low, theirs.high))


def test_parity_is_a_matter_of_the_interval():
    assert Difference(0.001, -0.004, 0.006).verdict == "equal within 1%"
    assert Difference(0.001, -0.02, 0.022).verdict == "undecided: more seeds"
    assert Difference(0.03, 0.02, 0.04).verdict == "different"
    assert difference([0.97, 0.97], [0.97] * 5) is None  # too few to tell
    assert difference([0.97] * 3, [0.97] * 3).verdict == "equal within 1%"


def test_only_equal_settings_are_compared(tmp_path, maker):
    def trained(device, seed, accuracy, **changes):
        cell = maker.cell(device=device, seed=seed, protocol=Protocol.fit, **changes)
        return maker.ok(cell, 100, evaluation=Evaluation(num_samples=9, seconds=1, loss=0.1, accuracy=accuracy))

    records = [trained(device, seed, 0.97 + seed / 1000) for device in ("cpu", "xla_cpu") for seed in range(4)]
    records += [trained("gpu", seed, 0.5, batch_size=32) for seed in range(4)]
    table = accuracy_by_device.table(read.read(maker.suite(tmp_path, records)))
    assert [[entry.text for entry in row][3:6] for row in table.rows] == [["cpu less xla_cpu", "4", "4"]]
    assert table.rows[0][-1].text == "equal within 1%"
