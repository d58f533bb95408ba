from dataclasses import replace

from accelbench.schema.measurement import SystemSeries
from five_studies import power
from report.conftest import inferring
from report.rows import texts


def test_the_powers_growth_is_the_studys_and_stands_beside_ours(read, maker):
    def measured(watts, precision, batch):
        cell = inferring(maker, "resnet18", "gpu", precision, batch_size=batch).cell
        values = {"gpu_0_power_w": [watts] * 2, "gpu_0_utilization_percent": [90.0] * 2}
        system = SystemSeries(started_boot_s=0.0, t_s=[1.0, 2.0], values=values)
        made = maker.ok(cell, 100, data=None, steady_boot_s=(0.5, 3.0), peak_device_bytes=2**20)
        return replace(made, system=system)

    sweep = read([measured(*each) for each in ((200, "fp16", 16), (230, "fp16", 32), (300, "tf32", 16))], study="000")
    rows = texts(power.table(sweep))
    assert [row["published (x)"] for row in rows] == ["1.11", "1.02", "1.01", "1.28", "1.20"]  # as its text has them
    assert [row["from its raw data (x)"] for row in rows] == ["1.107", "1.016", "1.012", "1.279", "1.205"]
    assert [row["ours: highest (x)"] for row in rows] == ["1.15", "–", "–", "1.50", "–"]
