import pandas as pd
import pytest

from accelbench.report import build
from accelbench.report.tables import device_scaling
from accelbench.schema.cell import KerasSettings
from accelbench.schema.vocab import Engine, Mode, Scaling, Status
from report.tables.rows import texts

GPU = {"device": "gpu", "batch_size": 64}
TWO = {**GPU, "devices": 2}
XLA = {"device": "xla_cpu"}
KERAS = {"engine": Engine.keras, "keras": KerasSettings()}
WEAK = {"device": "gpu", "scaling": Scaling.weak}


def records(maker, *cells):
    """From (rate, what the cell is, threads of each process) to records."""
    made = [(maker.cell(**{"mode": Mode.infer, **settings}), rate, threads) for rate, settings, threads in cells]
    return [maker.ok(cell, rate, threads=threads) for cell, rate, threads in made]


@pytest.mark.parametrize(
    ("cells", "shown"),
    [
        pytest.param(
            [
                *((1000, GPU, 8), (800, {"device": "gpu", "batch_size": 32}, 8), (1800, TWO, 4)),
                (1560, {**WEAK, "devices": 2, "batch_size": 64}, 4),
                (2400, {**WEAK, "devices": 4, "batch_size": 128}, 2),
            ],
            [("strong", "2", "1.80", "90.0"), ("weak", "2", "1.95", "97.5"), ("weak", "4", "3.00", "75.0")],
            id="with the same cell on one device",
        ),
        pytest.param(
            [(1000, {}, 2), (600, {"threads": 1}, 1), (900, {"devices": 2}, 1)],
            [("strong", "2", "1.50", "75.0")],
            id="parts of a CPU with one process of as many threads",
        ),
        pytest.param(
            [(1000, {"device": "tpu"}, None), (3600, {"device": "tpu", "devices": 4, "xla_processes": True}, None)],
            [("strong", "4", "3.60", "90.0")],
            id="XLA's devices with a process each with one",
        ),
        pytest.param([(1000, XLA, None), (900, {**XLA, "devices": 2}, None)], [], id="devices share all cores"),
        pytest.param([(1000, KERAS, 2), (900, {**KERAS, "devices": 2}, 2)], [], id="devices of Keras do too"),
        *(
            pytest.param([(1000, {**GPU, **other}, 8), (1800, TWO, 4)], [], id=f"cells differ in {next(iter(other))}")
            for other in ({"batch_size": 32}, {"seed": 1}, {"precision": "bf16"}, {"mode": Mode.train})
        ),
    ],
)
def test_cells_on_several_devices_are_compared(read, maker, cells, shown):
    table = device_scaling.table(read(records(maker, *cells)))
    found = texts(table) if table else []
    columns = ("scaling", "devices", "speed-up (x)", "efficiency (%)")
    assert [tuple(row[name] for name in columns) for row in found] == shown


def test_the_report_shows_it_and_the_csv_has_it_where_it_is_known(maker, tmp_path):
    failed = maker.record(maker.cell(device="gpu", devices=4, mode=Mode.infer), Status.failed, reason="rank 1 of 4: no")
    maker.suite(tmp_path / "results", [*records(maker, (1000, GPU, 8), (1800, TWO, 4)), failed])
    report = build.build(tmp_path / "results", tmp_path / "report").parent
    cells = pd.read_csv(report / "cells.csv")
    assert cells["scaling_efficiency"].fillna(-1).tolist() == [-1, pytest.approx(0.9), -1]
    assert "Several devices" in (report / "index.html").read_text()
