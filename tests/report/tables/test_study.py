from pathlib import Path

import pytest

from accelbench.report.read import Sweep
from accelbench.report.read import read as read_sweep
from accelbench.report.tables import study
from accelbench.report.tables.table import Table
from accelbench.schema.vocab import Protocol


@pytest.fixture
def read(tmp_path: Path, maker):
    """From records to the sweep that holds them."""

    def read(records, waiting=(), **plan) -> Sweep:
        return read_sweep(maker.suite(tmp_path, records, waiting, **plan))

    return read


def texts(table: Table, *first: str) -> list[dict[str, str]]:
    """The rows that begin with `first`, by heading."""
    rows = [dict(zip(table.headings, (entry.text for entry in row), strict=True)) for row in table.rows]
    return [row for row in rows if tuple(row.values())[: len(first)] == first]


def test_accuracy_is_of_a_cell_that_ran_whole_epochs(read, maker) -> None:
    window = maker.ok(maker.cell(), 1000)
    fit = maker.ok(maker.cell(batch_size=256, protocol=Protocol.fit), 1000)
    table = study.quality(read([window, fit]))
    ours, theirs = texts(table, "mlp")
    assert (ours["whose"], ours["test accuracy (%)"], ours["test loss"]) == ("ours", "97.7", "0.0812")
    assert ours["cell or source"].startswith("fp32, batch 256")
    assert (theirs["whose"], theirs["test accuracy (%)"], theirs["device"]) == ("published", "97.6", "not stated")
