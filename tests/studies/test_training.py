from accelbench.schema.cell import Engine, Protocol
from accelbench.schema.measurement import Epoch, Evaluation
from five_studies import beside, training
from report.rows import texts


def test_accuracy_is_of_a_cell_that_ran_whole_epochs(read, maker) -> None:
    window = maker.ok(maker.cell(), 1000)
    fit = maker.ok(maker.cell(batch_size=256, protocol=Protocol.fit), 1000)
    table = training.quality(read([window, fit, maker.ok(maker.cell("autoencoder"), 1000)]))
    ours, theirs = texts(table, "mlp")
    assert (ours["whose"], ours["test accuracy (%)"], ours["test loss"]) == ("ours", "97.7", "0.0812")
    assert ours["cell or source"].startswith("fp32, batch 256")
    assert (theirs["whose"], theirs["test accuracy (%)"], theirs["device"]) == ("published", "97.6", "not stated")
    (row,) = texts(table, "autoencoder")
    assert (row["training loss"], row["test loss"]) == ("0.0268", "0.0131")


def test_a_published_accuracy_stands_beside_ours_of_the_same_thing(read, maker) -> None:
    tested = Evaluation(num_samples=10_000, seconds=1, loss=1.3, accuracy=0.51)
    trained = [Epoch(seconds=each, num_samples=50_000, loss=1.2, accuracy=0.55, evaluation=tested) for each in (20, 9)]
    cell = maker.cell("mlp_cifar10", protocol=Protocol.fit, epochs=2, batch_size=32)
    sweep = read([maker.ok(cell, 1000, epochs=trained, evaluation=tested)], study="004")
    ours, cpu, gpu = texts(training.quality(sweep), "mlp_cifar10")
    assert [row["training accuracy (%)"] for row in (ours, cpu, gpu)] == ["55.0", "54.97", "55.23"]
    assert [row["test accuracy (%)"] for row in (ours, cpu, gpu)] == ["51.0", "–", "–"]
    (_, epoch) = beside.pairs(sweep)  # after the study's own job
    assert epoch.published.value == 44.5
    assert epoch.ours[Engine.pytorch].text == "20.1"  # the first epoch, with building
