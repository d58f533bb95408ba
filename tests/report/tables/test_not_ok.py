from pathlib import Path

import pytest

from accelbench.report.read import Sweep
from accelbench.report.read import read as read_sweep
from accelbench.report.tables import not_ok
from accelbench.report.tables.table import Table
from accelbench.schema.vocab import Status


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


def test_cells_are_grouped_by_reason_and_failures_listed_with_their_last_line(read, maker) -> None:
    skipped = [maker.record(maker.cell(batch_size=2**i), Status.skipped, reason="no GPU") for i in range(6)]
    error = "Traceback\n  File ...\nValueError: shapes\n\n"
    failed = maker.record(maker.cell("cnn"), Status.failed, reason="raised", error=error)
    found = [read([maker.ok(maker.cell("lstm"), 1), failed, *skipped], [maker.cell("rnn")])]
    rows = texts(not_ok.reasons(found))
    assert [(row["status"], row["cells"], row["reason"]) for row in rows] == [
        ("failed", "1", "raised"),
        ("not run yet", "1", "–"),
        ("skipped", "6", "no GPU"),
    ]
    assert rows[2]["which"].endswith("and 4 more")
    (row,) = texts(not_ok.failures(found))
    assert (row["cell"], row["last line of the error"]) == ("cnn-cpu-fp32-b128-train", "ValueError: shapes")


def test_where_all_is_well_there_is_no_table(read, maker) -> None:
    found = [read([maker.ok(maker.cell(), 1)])]
    assert not_ok.reasons(found) is None
    assert not_ok.failures(found) is None
