from accelbench.report.tables import study
from accelbench.schema.vocab import Protocol
from report.tables.rows import texts


def test_accuracy_is_of_a_cell_that_ran_whole_epochs(read, maker) -> None:
    window = maker.ok(maker.cell(), 1000)
    fit = maker.ok(maker.cell(batch_size=256, protocol=Protocol.fit), 1000)
    table = study.quality(read([window, fit]))
    ours, theirs = texts(table, "mlp")
    assert (ours["whose"], ours["test accuracy (%)"], ours["test loss"]) == ("ours", "97.7", "0.0812")
    assert ours["cell or source"].startswith("fp32, batch 256")
    assert (theirs["whose"], theirs["test accuracy (%)"], theirs["device"]) == ("published", "97.6", "not stated")
