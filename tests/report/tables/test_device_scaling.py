import pandas as pd
import pytest

from accelbench.report import build
from accelbench.report.read import read as read_sweep
from accelbench.report.tables import device_scaling
from accelbench.schema.cell import KerasSettings
from accelbench.schema.vocab import Engine, Mode, Scaling, Status


@pytest.fixture
def records(maker):
    """From (rate, what the cell is, threads of each process) to records."""

    def records(*cells):
        wanted = [(rate, maker.cell(**{"mode": Mode.infer, **settings}), threads) for rate, settings, threads in cells]
        return [maker.ok(cell, rate, threads=threads) for rate, cell, threads in wanted]

    return records


@pytest.fixture
def found(read):
    """From records to speed-up and efficiency by number of devices and scaling."""
    return lambda records: {
        (cell.cell.devices, cell.cell.scaling): (cell.speed / one.speed, device_scaling._efficiency((cell, one)))
        for cell, one in device_scaling.scaled_cells(read(records))
    }


def weak(devices, batch_size):
    return {"device": "gpu", "devices": devices, "batch_size": batch_size, "scaling": Scaling.weak}


def test_strong_and_weak_scaling_are_compared_with_the_same_cell_on_one_device(read, found, records):
    made = records(
        (1000, {"device": "gpu", "batch_size": 64}, 8),
        (800, {"device": "gpu", "batch_size": 32}, 8),
        (1800, {"device": "gpu", "batch_size": 64, "devices": 2}, 4),
        (1560, weak(2, 64), 4),
        (2400, weak(4, 128), 2),
    )
    assert found(made) == {
        (2, "strong"): (pytest.approx(1.8), pytest.approx(0.9)),
        (2, "weak"): (pytest.approx(1.95), pytest.approx(0.975)),
        (4, "weak"): (pytest.approx(3.0), pytest.approx(0.75)),
    }


def test_parts_of_a_cpu_are_compared_with_one_process_of_as_many_threads(read, found, records):
    made = records((1000, {}, 2), (600, {"threads": 1}, 1), (900, {"devices": 2}, 1))
    assert found(made) == {(2, "strong"): (pytest.approx(1.5), pytest.approx(0.75))}


def test_devices_that_share_all_cores_have_no_efficiency(read, found, records):
    made = records((1000, {"device": "xla_cpu"}, None), (900, {"device": "xla_cpu", "devices": 2}, None))
    keras = {"engine": Engine.keras, "keras": KerasSettings()}
    made += records((1000, keras, 2), (900, {**keras, "devices": 2}, 2))
    assert found(made) == {}


def test_xla_devices_with_a_process_each_are_compared_with_one(read, found, records):
    apart = {"device": "tpu", "devices": 4, "xla_processes": True}
    made = records((1000, {"device": "tpu"}, None), (3600, apart, None))
    assert found(made) == {(4, "strong"): (pytest.approx(3.6), pytest.approx(0.9))}
    (row,) = device_scaling.table(read(made)).rows
    assert "a process each" in [entry.text for entry in row]


@pytest.mark.parametrize("other", [{"batch_size": 32}, {"seed": 1}, {"precision": "bf16"}, {"mode": Mode.train}])
def test_cells_that_differ_in_more_are_not_compared(read, found, records, other):
    made = records((1000, {"device": "gpu", **other}, 8), (1800, {"device": "gpu", "devices": 2}, 4))
    assert found(made) == {}
    assert device_scaling.table(read(made)) is None


def test_the_report_shows_it_and_the_csv_has_it_where_it_is_known(maker, tmp_path, records):
    made = records((1000, {"device": "gpu"}, 8), (1800, {"device": "gpu", "devices": 2}, 4))
    failed = maker.record(maker.cell(device="gpu", devices=4, mode=Mode.infer), Status.failed, reason="rank 1 of 4: no")
    folder = maker.suite(tmp_path / "results", [*made, failed])
    report = build.build(tmp_path / "results", tmp_path / "report").parent
    cells = pd.read_csv(report / "cells.csv")
    assert cells["scaling_efficiency"].fillna(-1).tolist() == [-1, pytest.approx(0.9), -1]
    (row,) = device_scaling.table(read_sweep(folder)).rows
    assert [entry.text for entry in row][-4:] == ["1,000", "1,800", "1.80", "90.0"]
    assert "Several devices" in (report / "index.html").read_text()
