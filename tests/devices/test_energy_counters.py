import pytest

from accelbench.devices import energy_counters

from .fakes import FakeNvml


def rapl(name, joules, kind="package-0"):
    files = {"name": kind, "energy_uj": f"{joules}000000", "max_energy_range_uj": "1000000000"}
    return {f"sys/class/powercap/intel-rapl:{name}/{file}": text for file, text in files.items()}


def test_packages_are_added_up_their_parts_are_not_and_a_wrap_is_undone(root):
    root(rapl("0", 100) | rapl("0:0", 50, "core") | rapl("1", 900, "package-1") | rapl("2", 10, "psys"))
    counter = energy_counters.find_rapl()
    assert counter() == 0
    root(rapl("0", 130) | rapl("1", 20, "package-1"))  # 1000 joules and it starts again
    assert counter() == pytest.approx(30 + 120)
    assert counter() == pytest.approx(150)


def test_a_counter_that_may_not_be_read_is_none_and_gpus_are_read_from_nvml(root, tmp_path, monkeypatch):
    assert energy_counters.find_rapl() is None
    root(rapl("0", 100))
    (tmp_path / "sys/class/powercap/intel-rapl:0/energy_uj").unlink()
    assert energy_counters.counters(0) == {}
    FakeNvml(("A", "B")).answer(monkeypatch)
    readers = energy_counters.counters(2)
    assert {name: read() for name, read in readers.items()} == {"gpu_0_energy_j": 1234.567, "gpu_1_energy_j": 1235.567}
    for nvml in (FakeNvml(failing=["nvmlDeviceGetTotalEnergyConsumption"]), FakeNvml(driver=False)):
        nvml.answer(monkeypatch)
        assert energy_counters.counters(1) == {}
