import pytest

from accelbench.judging.costs import Cost, joules_per_sample, with_costs
from accelbench.schema.cell import Device
from accelbench.schema.measurement import Epoch, SystemSeries
from fakes import make_cell, make_measurement, make_record

ROW = dict.fromkeys(
    ("energy_j_per_sample", "energy_j_per_request", "energy_provenance", "requests_per_s", "busy_share")
)
ROW |= {"device": "gpu", "devices": 1, "samples_per_s": 1000.0}
BOTH = {Device.gpu: Cost(price_per_hour=3.6, power_w=350), Device.cpu: Cost(price_per_hour=3.6, power_w=350)}
STEADY = {"steady_boot_s": (102.0, 105.0), "num_steady_samples": 600}


def test_money_and_estimated_energy_follow_from_what_is_stated():
    row = with_costs(ROW, BOTH)
    assert row["cost_per_million_samples"] == pytest.approx(1.0)
    assert (row["energy_j_per_sample"], row["energy_provenance"]) == (pytest.approx(0.35), "estimated")
    gpus, parts = (with_costs(ROW | {"device": device, "devices": 4}, BOTH) for device in ("gpu", "cpu"))
    for column in ("cost_per_million_samples", "energy_j_per_sample"):
        assert gpus[column] == pytest.approx(4 * row[column])
        assert parts[column] == pytest.approx(row[column])  # parts of one CPU
    served = with_costs(ROW | {"samples_per_s": None, "requests_per_s": 100.0, "busy_share": 0.25}, BOTH)
    assert served["cost_per_million_requests"] == pytest.approx(10.0)  # of the whole time
    assert served["energy_j_per_request"] == pytest.approx(0.25 * 3.5)  # while it computes
    assert "cost_per_million_samples" not in served


def series(*watts_at, names=("cpu_energy_j",)):
    """Counters read ten times a second for 14 s, of devices that use so many watts at a time."""
    times = [place / 10 for place in range(140)]
    joules = [[sum(watts(t) for t in times[:place]) / 10 for place in range(140)] for watts in watts_at]
    return SystemSeries(started_boot_s=100.0, t_s=times, values=dict(zip(names, joules, strict=True)))


def of_epochs(*spans):
    epochs = [Epoch(seconds=seconds, num_samples=100, began_boot_s=began) for began, seconds in spans]
    return {"measured": {"steady_boot_s": (100.0, 113.0), "num_steady_samples": None, "epochs": epochs}}


# 50 W in the epochs, 500 W in the first one and in the tests after each.
EPOCHS_50_W = series(lambda t: 50 if 4 <= t < 7 or 9 <= t < 12 else 500)
GPUS = {"device": Device.gpu, "measured": STEADY | {"num_devices": 2}}
GPUS["system"] = series(lambda t: 50, lambda t: 30, names=("gpu_0_energy_j", "gpu_1_energy_j"))
ENERGIES = {
    "the steady state, above idle": ({}, 40 * 3 / 600),
    "all epochs but the first, without what comes between them": (
        {"system": EPOCHS_50_W, **of_epochs((100.0, 3.0), (104.0, 3.0), (109.0, 3.0))},
        40 * 6 / 200,
    ),
    "one epoch, which has the warm-up": (of_epochs((100.0, 3.0)), None),
    "too short": ({"measured": STEADY | {"steady_boot_s": (102.0, 102.5)}}, None),
    "when an epoch began is unknown": (of_epochs((100.0, 1.0), (102.0, 2.0), (None, 3.0)), None),
    "an idle device that uses more": ({"idle_w": {"cpu_energy_j": 60.0}}, None),
    "an unknown idle power": ({"idle_w": {}}, None),
    "a GPU without a counter": ({"device": Device.gpu}, None),
    "a TPU": ({"device": Device.tpu}, None),
    "two GPUs together": (GPUS | {"idle_w": {"gpu_0_energy_j": 10.0, "gpu_1_energy_j": 5.0}}, (40 + 25) * 3 / 600),
}


@pytest.mark.parametrize(("changes", "expected"), ENERGIES.values(), ids=ENERGIES)
def test_energy_is_of_the_steady_state_above_idle(changes, expected):
    steady = series(lambda t: 50 if t >= 2 else 0)  # after two seconds, in which libraries are loaded
    known = {"device": Device.cpu, "system": steady, "measured": STEADY, "idle_w": {"cpu_energy_j": 10.0}, **changes}
    measured = make_measurement(**known["measured"])
    cell = make_cell(device=known["device"], devices=measured.num_devices)
    record = make_record(cell, system=known["system"], environment={"idle_w": known["idle_w"]})
    joules = joules_per_sample(record, measured)
    assert joules == (None if expected is None else pytest.approx(expected, rel=0.02))
