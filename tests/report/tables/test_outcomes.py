from accelbench.report.read import cells_in
from accelbench.report.tables import outcomes
from accelbench.schema.vocab import Status
from report.tables.rows import texts


def test_cells_are_grouped_by_reason_and_processes_that_failed_listed_with_their_last_line(read, maker) -> None:
    skipped = [maker.record(maker.cell(batch_size=2**i), Status.skipped, reason="no GPU") for i in range(6)]
    error = "Traceback\n  File ...\nValueError: shapes\n\n"
    failed = maker.record(maker.cell("cnn"), Status.failed, reason="raised", error=error)
    beside = maker.record(maker.cell("lstm", repeat=1), Status.failed, reason="now and then")  # of a cell that is ok
    found = [read([maker.ok(maker.cell("lstm"), 1), beside, failed, *skipped], [maker.cell("rnn")])]
    rows = texts(outcomes.reasons(cells_in(found)))
    assert [(row["status"], row["cells"], row["reason"]) for row in rows] == [
        ("failed", "1", "raised"),
        ("not run yet", "1", "–"),
        ("skipped", "6", "no GPU"),
    ]
    first, second = texts(outcomes.failures(found))
    assert (first["process"], second["process"]) == ("lstm-cpu-fp32-b128-train-r1", "cnn-cpu-fp32-b128-train")
    assert second["last line of the error"] == "ValueError: shapes"
    assert outcomes.device_texts(cells_in(found)) == ["cpu: Example CPU"]
    well = [read([maker.ok(maker.cell(), 1)])]
    assert outcomes.reasons(cells_in(well)) is outcomes.failures(well) is None
