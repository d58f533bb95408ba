from accelbench.report.tables import not_ok
from accelbench.schema.vocab import Status
from report.tables.rows import texts


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
