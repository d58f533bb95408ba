from dataclasses import replace

import pytest

from accelbench.schema.conditions import SystemSeries
from five_studies import load
from report.conftest import inferring
from report.tables.rows import texts


def loaded(maker, device="gpu", precision="fp16", **series):
    system = SystemSeries(started_boot_s=0.0, t_s=[1.0, 2.0], values={name: [v, v] for name, v in series.items()})
    made = inferring(maker, "resnet18", device, precision, batch_size=16)
    return maker.ok(made.cell, 100, data=None, steady_boot_s=(0.5, 3.0)), system


@pytest.fixture
def sweep(read, maker):
    def make(*loads):
        return read([replace(record, system=system) for record, system in loads], study="000")

    return make


def test_a_gpus_load_stands_beside_the_published(sweep, maker):
    figures = {"utilization_percent": 97, "power_w": 250, "temperature_c": 61, "sm_clock_mhz": 1410}
    gpu = loaded(maker, **{f"gpu_0_{name}": value for name, value in figures.items()})
    (row,) = texts(load.table(sweep(gpu)))
    ours = [row[name] for name in ("utilisation (%)", "power (W)", "temperature (°C)", "clock (MHz)")]
    assert ours == ["97.0", "250", "61.0", "1,410"]
    assert float(row["published: power (W)"]) < 100  # a mean over three GPUs, two of which were idle
    assert row["published by"].endswith("mean of 3 GPUs")


def test_a_cpus_utilisation_is_of_all_its_cores(sweep, maker):
    cpu = loaded(maker, "cpu", "fp32", cpu_utilization_percent=200.0)
    rows = texts(load.table(sweep(cpu)))
    assert {row["utilisation (%)"] for row in rows} == {"50.0"}  # two of four
    assert {row["published: utilisation (%)"] for row in rows} >= {"0.800"}  # one core of 128
