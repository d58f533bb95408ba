import pytest

from accelbench.judging.costs import Cost, joules_per_sample, with_costs
from accelbench.schema.measurement import Epoch, SystemSeries
from accelbench.schema.vocab import Device
from fakes import make_cell, make_measurement, make_record

ROW = dict.fromkeys(
    ("energy_j_per_sample", "energy_j_per_request", "energy_provenance", "requests_per_s", "busy_share")
)
ROW |= {"device": "gpu", "devices": 1, "samples_per_s": 1000.0}
BOTH = {Device.gpu: Cost(price_per_hour=3.6, power_w=350), Device.cpu: Cost(price_per_hour=3.6, power_w=350)}
IDLE_W = {"cpu_energy_j": 10.0}
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


def epoch(began_boot_s, seconds):
    return Epoch(seconds=seconds, num_samples=100, began_boot_s=began_boot_s)


STEADY_50_W = series(lambda t: 50 if t >= 2 else 0)  # after two seconds, in which libraries are loaded
# 50 W in the epochs, 500 W in the first one and in the tests after each.
EPOCHS_50_W = series(lambda t: 50 if 4 <= t < 7 or 9 <= t < 12 else 500)


def per_sample(device, measured, system, idle_w):
    cell = make_cell(device=device, devices=measured.num_devices)
    record = make_record(cell, system=system, environment={"idle_w": idle_w})
    return joules_per_sample(record, measured)


def of_epochs(*epochs):
    return {"steady_boot_s": (100.0, 113.0), "num_steady_samples": None, "epochs": list(epochs)}


@pytest.mark.parametrize(
    ("system", "measured", "expected"),
    [
        pytest.param(STEADY_50_W, STEADY, 40 * 3 / 600, id="the steady state, above idle"),
        pytest.param(
            EPOCHS_50_W,
            of_epochs(epoch(100.0, 3.0), epoch(104.0, 3.0), epoch(109.0, 3.0)),
            40 * 6 / 200,
            id="all epochs but the first, without what comes between them",
        ),
        pytest.param(STEADY_50_W, of_epochs(epoch(100.0, 3.0)), None, id="one epoch, which has the warm-up"),
        pytest.param(STEADY_50_W, STEADY | {"steady_boot_s": (102.0, 102.5)}, None, id="too short"),
        pytest.param(STEADY_50_W, STEADY | {"steady_boot_s": None}, None, id="no steady state"),
        *[
            pytest.param(STEADY_50_W, of_epochs(epoch(100.0, 1.0), epoch(102.0, 2.0), last), None, id=why)
            for last, why in ((epoch(None, 3.0), "when is unknown"), (epoch(104.0, 0.6), "one is too short"))
        ],
    ],
)
def test_energy_is_of_the_steady_state_above_idle(system, measured, expected):
    joules = per_sample(Device.cpu, make_measurement(**measured), system, IDLE_W)
    assert joules == (None if expected is None else pytest.approx(expected, rel=0.02))


def test_energy_is_unknown_where_the_idle_power_or_a_counter_is():
    unknown = [(Device.cpu, {"cpu_energy_j": 60.0}), (Device.cpu, {}), (Device.gpu, IDLE_W), (Device.tpu, IDLE_W)]
    for device, idle in unknown:
        assert per_sample(device, make_measurement(**STEADY), STEADY_50_W, idle) is None
        assert per_sample(device, make_measurement(**STEADY), STEADY_50_W, idle) is None


def test_the_energy_of_several_gpus_is_the_sum_of_theirs():
    both = series(lambda t: 50, lambda t: 30, names=("gpu_0_energy_j", "gpu_1_energy_j"))
    measured = make_measurement(**STEADY, num_devices=2)
    idle = {"gpu_0_energy_j": 10.0, "gpu_1_energy_j": 5.0}
    joules = per_sample(Device.gpu, measured, both, idle)
    assert joules == pytest.approx((40 + 25) * 3 / 600, rel=0.02)
    assert per_sample(Device.gpu, measured, both, {"gpu_0_energy_j": 10.0}) is None
