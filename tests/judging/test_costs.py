import pytest

from accelbench.judging import costs
from accelbench.judging.costs import Cost
from accelbench.schema.vocab import Device

ROW = {"device": "gpu", "devices": 1, "samples_per_s": 1000.0, "energy_j_per_sample": None, "energy_provenance": None}


def test_money_and_estimated_energy_follow_from_what_is_stated():
    row = costs.with_costs(ROW, {Device.gpu: Cost(price_per_hour=3.6, power_w=350)})
    assert row["cost_per_million_samples"] == pytest.approx(1.0)
    assert row["energy_j_per_sample"] == pytest.approx(0.35)
    assert row["energy_provenance"] == "estimated"


def test_what_was_measured_stays_and_what_is_unknown_stays_empty():
    measured = ROW | {"energy_j_per_sample": 0.2, "energy_provenance": "measured"}
    assert costs.with_costs(measured, {Device.gpu: Cost(power_w=350)}) == measured
    assert costs.with_costs(ROW, {Device.cpu: Cost(power_w=65)}) == ROW
    unknown = ROW | {"samples_per_s": None}
    assert costs.with_costs(unknown, {Device.gpu: Cost(price_per_hour=1)}) == unknown


def test_several_gpus_cost_as_many_times_and_parts_of_a_cpu_what_it_does():
    both = {Device.gpu: Cost(price_per_hour=3.6, power_w=350), Device.cpu: Cost(price_per_hour=3.6, power_w=350)}
    gpus, parts = (costs.with_costs(ROW | {"device": device, "devices": 4}, both) for device in ("gpu", "cpu"))
    assert gpus["cost_per_million_samples"] == pytest.approx(4 * parts["cost_per_million_samples"])
    assert gpus["energy_j_per_sample"] == pytest.approx(4 * parts["energy_j_per_sample"])
    assert parts["cost_per_million_samples"] == pytest.approx(1.0)
