from accelbench.report.read import cells_in
from accelbench.report.tables import outcomes
from accelbench.schema.vocab import Status
from report.tables.rows import texts


def test_cells_are_grouped_by_reason(read, maker) -> None:
    skipped = [maker.record(maker.cell(batch_size=2**i), Status.skipped, reason="no GPU") for i in range(6)]
    failed = maker.record(maker.cell("cnn"), Status.failed, reason="raised")
    beside = maker.record(maker.cell("lstm", repeat=1), Status.failed, reason="now and then")  # of a cell that is ok
    found = [read([maker.ok(maker.cell("lstm"), 1), beside, failed, *skipped], [maker.cell("rnn")])]
    rows = texts(outcomes.reasons(cells_in(found)))
    assert [(row["status"], row["cells"], row["reason"]) for row in rows] == [
        ("failed", "1", "raised"),
        ("not run yet", "1", "–"),
        ("skipped", "6", "no GPU"),
    ]
    assert outcomes.reasons(cells_in([read([maker.ok(maker.cell(), 1)])])) is None
