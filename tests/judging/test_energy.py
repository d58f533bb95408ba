import pytest

from accelbench.judging import energy
from accelbench.schema.conditions import SystemSeries
from accelbench.schema.measurement import Epoch
from accelbench.schema.vocab import Device
from fakes import make_measurement


def series(power_w, started=100.0, seconds=6):
    times = [place / 10 for place in range(seconds * 10)]
    # Nothing in the first two seconds, while libraries are loaded.
    joules = [power_w * max(0.0, t - 2) for t in times]
    return SystemSeries(started_boot_s=started, t_s=times, values={"cpu_energy_j": joules})


def test_energy_is_of_the_steady_state_above_idle():
    measured = make_measurement(steady_boot_s=(102.0, 105.0), num_steady_samples=600)
    found = energy.joules_per_sample(Device.cpu, measured, series(50.0), {"cpu_energy_j": 10.0})
    assert found == pytest.approx(40 * 3 / 600, rel=0.02)


def epoch(began_boot_s, seconds):
    return Epoch(seconds=seconds, num_samples=100, began_boot_s=began_boot_s)


def test_energy_of_whole_epochs_leaves_out_the_first_and_what_comes_between_them():
    # 50 W in the epochs, 500 W in the first one and in the tests after each.
    times = [place / 10 for place in range(140)]
    watts = [50 if 4 <= t < 7 or 9 <= t < 12 else 500 for t in times]
    joules = [sum(watts[:place]) / 10 for place in range(140)]
    system = SystemSeries(started_boot_s=100.0, t_s=times, values={"cpu_energy_j": joules})
    epochs = [epoch(100.0, 3.0), epoch(104.0, 3.0), epoch(109.0, 3.0)]
    measured = make_measurement(steady_boot_s=(100.0, 113.0), num_steady_samples=None, epochs=epochs)
    found = energy.joules_per_sample(Device.cpu, measured, system, {"cpu_energy_j": 10.0})
    assert found == pytest.approx(40 * 6 / 200, rel=0.02)


def test_energy_of_one_epoch_is_none_since_warm_up_is_in_it():
    measured = make_measurement(steady_boot_s=(100.0, 103.0), num_steady_samples=None, epochs=[epoch(100.0, 3.0)])
    assert energy.joules_per_sample(Device.cpu, measured, series(50.0), {"cpu_energy_j": 10.0}) is None


@pytest.mark.parametrize("last", [epoch(None, 3.0), epoch(104.0, 0.6)], ids=["when is unknown", "one is too short"])
def test_energy_of_epochs_is_none_where_one_of_them_tells_none(last):
    epochs = [epoch(100.0, 1.0), epoch(102.0, 2.0), last]
    measured = make_measurement(steady_boot_s=(100.0, 105.0), num_steady_samples=None, epochs=epochs)
    assert energy.joules_per_sample(Device.cpu, measured, series(50.0), {"cpu_energy_j": 10.0}) is None


@pytest.mark.parametrize(
    ("device", "steady", "idle"),
    [
        (Device.cpu, (102.0, 105.0), {"cpu_energy_j": 60.0}),
        (Device.cpu, (102.0, 102.5), {"cpu_energy_j": 10.0}),
        (Device.cpu, (102.0, 105.0), {}),
        (Device.cpu, None, {"cpu_energy_j": 10.0}),
        (Device.gpu, (102.0, 105.0), {"cpu_energy_j": 10.0}),
        (Device.tpu, (102.0, 105.0), {"cpu_energy_j": 10.0}),
    ],
    ids=["idle used more", "too short", "idle unknown", "no steady state", "no counter", "a TPU has none"],
)
def test_what_is_not_known_is_none(device, steady, idle):
    measured = make_measurement(steady_boot_s=steady, num_steady_samples=600)
    assert energy.joules_per_sample(device, measured, series(50.0), idle) is None


def test_the_energy_of_several_gpus_is_the_sum_of_theirs():
    values = {f"gpu_{index}_energy_j": series(power_w).values["cpu_energy_j"] for index, power_w in enumerate((50, 30))}
    both = SystemSeries(started_boot_s=100.0, t_s=series(1).t_s, values=values)
    idle = {"gpu_0_energy_j": 10.0, "gpu_1_energy_j": 5.0}
    measured = make_measurement(steady_boot_s=(102.0, 105.0), num_steady_samples=600, num_devices=2)
    found = energy.joules_per_sample(Device.gpu, measured, both, idle)
    assert found == pytest.approx((40 + 25) * 3 / 600, rel=0.02)
    assert energy.joules_per_sample(Device.gpu, measured, both, {"gpu_0_energy_j": 10.0}) is None
