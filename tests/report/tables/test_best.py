from accelbench.judging.costs import Cost
from accelbench.report.tables import best
from accelbench.schema.vocab import Device, Mode, Status
from report.tables.rows import texts


def test_a_line_for_each_model_and_what_is_done_with_it(answered, maker) -> None:
    settings = [(word, size, rate * size) for word, rate in (("fp32", 10), ("bf16", 20)) for size in (32, 128)]
    made = [maker.ok(maker.cell(precision=word, batch_size=size), rate) for word, size, rate in settings]
    infer = maker.ok(maker.cell(mode=Mode.infer), 99, warnings=["a warning"])
    train, infer = texts(best.what_to_use(answered([*made, infer])))
    assert train["model, and what is done"] == "mlp train, mnist"
    assert (train["most samples/s with"], train["samples/s"], train["± (%)"]) == ("cpu bf16 b128", "2,560", "3.0")
    assert (train["next best"], train["times as fast"], train["how sure"]) == ("cpu fp32 b128", "2.00", "likely")
    assert infer["next best"] == "–"
    assert (train["warnings"], infer["warnings"]) == ("1", "2")
    assert best.what_to_use(answered([maker.record(maker.cell(), Status.skipped, reason="no")])) is None


def test_each_criterion_that_is_known_has_its_best_cell(answered, maker) -> None:
    found = [(1, 100, 0.01), (2, 200, 0.03), (4, 150, 0.02)]
    records = [maker.ok(maker.cell(batch_size=size), rate, latency_s=[step] * 700) for size, rate, step in found]
    first, second, third = texts(best.by_criterion(answered(records, {Device.cpu: Cost(price_per_hour=3.6)})))
    assert (first["best by"], first["with"], first["cost of a million"]) == ("throughput, money", "cpu fp32 b2", "5.00")
    assert (second["best by"], third["best by"]) == ("latency", "unbeaten")
