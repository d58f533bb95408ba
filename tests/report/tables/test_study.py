from pathlib import Path

import pytest

from accelbench.report.read import Sweep
from accelbench.report.read import read as read_sweep
from accelbench.report.tables import study
from accelbench.report.tables.table import Table
from accelbench.schema.vocab import Mode, Protocol, Status


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


def test_times_stand_beside_the_published_with_the_settings_of_ours(read, maker) -> None:
    fit = maker.ok(maker.cell(protocol=Protocol.fit), 20_000)
    window = maker.ok(maker.cell("cnn", device="xla_cpu", batch_size=64, epochs=10), 2000)
    table = study.times(read([fit, window]), Mode.train)
    assert texts(table, "mlp", "cpu") == [
        {
            "network": "mlp",
            "device": "cpu",
            "ours (s)": "15.0",
            "ours: speed-up (x)": "1.00",
            "ours: cell": "fp32, batch 128, 5 x 60,000 samples, fit",
            "published (s)": "71.622",
            "published: speed-up (x)": "1.00",
            "published: speed-up as the study prints it (%)": "0",
        }
    ]
    (row,) = texts(table, "cnn", "xla_cpu")
    assert row["ours (s)"] == "~300"
    assert row["ours: cell"] == "fp32, batch 64, 10 x 60,000 samples, window"
    assert (row["ours: speed-up (x)"], row["published (s)"]) == ("–", "–")
    (gpu,) = texts(table, "cnn", "gpu")
    assert gpu["ours: cell"] == "not planned"
    assert gpu["published: speed-up as the study prints it (%)"] == "3,332"
    assert "(CPU time / device time - 1) x 100 %" in " ".join(table.notes)


def test_times_without_a_study_have_no_published_columns(read, maker) -> None:
    table = study.times(read([maker.ok(maker.cell(), 1000)], study=None), Mode.train)
    assert table.headings[-1] == "ours: cell"
    assert study.times(read([maker.ok(maker.cell(), 1000)], study=None), Mode.infer) is None


def test_accuracy_is_of_a_cell_that_ran_whole_epochs(read, maker) -> None:
    window = maker.ok(maker.cell(), 1000)
    fit = maker.ok(maker.cell(batch_size=256, protocol=Protocol.fit), 1000)
    table = study.quality(read([window, fit]))
    ours, theirs = texts(table, "mlp")
    assert (ours["whose"], ours["test accuracy (%)"], ours["test loss"]) == ("ours", "97.7", "0.0812")
    assert ours["cell or source"].startswith("fp32, batch 256")
    assert (theirs["whose"], theirs["test accuracy (%)"], theirs["device"]) == ("published", "97.6", "not stated")


def test_troubles_are_grouped_by_reason_and_failures_listed_with_their_last_line(read, maker) -> None:
    skipped = [maker.record(maker.cell(batch_size=2**i), Status.skipped, reason="no GPU") for i in range(6)]
    error = "Traceback\n  File ...\nValueError: shapes\n\n"
    failed = maker.record(maker.cell("cnn"), Status.failed, reason="raised", error=error)
    found = [read([maker.ok(maker.cell("lstm"), 1), failed, *skipped], [maker.cell("rnn")])]
    rows = texts(study.troubles(found))
    assert [(row["status"], row["cells"], row["reason"]) for row in rows] == [
        ("failed", "1", "raised"),
        ("not run yet", "1", "–"),
        ("skipped", "6", "no GPU"),
    ]
    assert rows[2]["which"].endswith("and 4 more")
    (row,) = texts(study.failures(found))
    assert (row["cell"], row["last line of the error"]) == ("cnn-cpu-fp32-b128-train", "ValueError: shapes")


def test_where_all_is_well_there_are_no_troubles(read, maker) -> None:
    found = [read([maker.ok(maker.cell(), 1)])]
    assert study.troubles(found) is None
    assert study.failures(found) is None
