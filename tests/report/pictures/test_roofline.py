import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from accelbench.report import read
from accelbench.report.pictures import roofline
from accelbench.schema.ceilings import Ceilings
from accelbench.schema.measurement import Breakdown
from accelbench.schema.vocab import Mode
from accelbench.schema.work import Work

CEILINGS = Ceilings(
    device="cpu",
    device_name="a CPU",
    threads=2,
    flops_per_s={"fp32": 1e11, "bf16": 4e11},
    how={"fp32": "matmul", "bf16": "matmul"},
    memory_bytes_per_s=1e10,
    host_to_device_bytes_per_s=None,
    device_to_host_bytes_per_s=None,
    launch_s=1e-6,
    seconds=1.0,
    measured_at="2026-11-20T09:00:00.000+00:00",
)
ENVIRONMENT = {"ceilings": CEILINGS.to_json()}
PHASES = {"data_wait": [1e-3] * 4, "forward": [6e-3] * 4, "backward": [2e-3] * 4, "framework": [1e-3] * 4}


def working(maker, model, precision="fp32", mode=Mode.infer, **changes):
    cell = maker.cell(model, precision=precision, mode=mode)
    changes = {
        "work": Work(flops=128 * 10**8, bytes=128 * 10**6, num_operators=9),
        "breakdown": Breakdown(phases_s=PHASES, undisturbed_s=[9.9e-3] * 4),
        **changes,
    }
    made = maker.ok(cell, 500.0, **changes)
    return made.__class__(**{**made.__dict__, "environment": {**made.environment, **ENVIRONMENT}})


def test_a_roof_is_drawn_for_each_precision_and_a_point_for_each_cell_that_has_one(cells):
    figure = roofline.roofline(cells, "title", "")
    train, infer = figure.axes
    assert (train.get_title(loc="left"), infer.get_title(loc="left")) == ("train", "infer")
    points = [line for line in infer.lines if len(line.get_xdata()) == 1]
    assert [(line.get_xdata()[0], line.get_ydata()[0]) for line in points] == [(100.0, pytest.approx(50.0))] * 2
    roofs = [line for line in infer.lines if len(line.get_xdata()) > 1]
    assert sorted(max(line.get_ydata()) for line in roofs) == [100.0, 400.0]
    slope = next(line for line in roofs if max(line.get_ydata()) == 400.0)
    assert slope.get_ydata()[0] == pytest.approx(slope.get_xdata()[0] * 10)  # 10 GB/s
    assert {text.get_text() for text in figure.legends[0].get_texts()} == {"cpu fp32", "cpu bf16"}


def test_without_operations_or_ceilings_there_is_no_roofline(tmp_path, maker, cells):
    assert roofline.roofline([cells[3]], "title", "") is None
    plain = read.read(maker.suite(tmp_path / "plain", [maker.ok(maker.cell(), 9.0)])).cells
    assert roofline.roofline(plain, "title", "") is None


def test_names_of_near_points_do_not_overlap(tmp_path, maker):
    records = [working(maker, f"network_{i}") for i in range(4)]
    figure = roofline.roofline(read.read(maker.suite(tmp_path, records)).cells, "title", "")
    FigureCanvasAgg(figure).draw()
    boxes = [text.get_window_extent() for text in figure.axes[-1].texts if text.get_text().startswith("network")]
    assert len(boxes) == 4
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[i + 1 :])
