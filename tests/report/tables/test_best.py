from accelbench.judging.costs import Cost
from accelbench.report.tables import best
from accelbench.schema.vocab import Device
from report.tables.rows import texts


def test_each_criterion_that_is_known_has_its_best_cell(answered, maker) -> None:
    found = [(1, 100, 0.01), (2, 200, 0.03), (4, 150, 0.02)]
    records = [maker.ok(maker.cell(batch_size=size), rate, latency_s=[step] * 700) for size, rate, step in found]
    first, second, third = texts(best.by_criterion(answered(records, {Device.cpu: Cost(price_per_hour=3.6)})))
    assert (first["best by"], first["with"], first["cost of a million"]) == ("throughput, money", "cpu fp32 b2", "5.00")
    assert (second["best by"], third["best by"]) == ("latency", "unbeaten")
