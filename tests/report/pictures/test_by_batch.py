from pathlib import Path

import numpy as np
import pytest

from accelbench.report import read
from accelbench.report.pictures import by_batch


def test_throughput_has_a_line_per_device_and_precision_with_its_interval(tmp_path: Path, maker) -> None:
    records = [
        maker.ok(maker.cell(device=device, precision=precision, batch_size=size), size * 100)
        for device in ("cpu", "gpu")
        for precision in ("fp32", "bf16")
        for size in (32, 64, 128)
    ]
    figure = by_batch.throughput(read.read(maker.suite(tmp_path, records)).ok_rows, "title", "")
    (axes,) = figure.axes
    assert len(axes.containers) == 4
    line, caps, _ = axes.containers[0]
    assert np.array_equal(line.get_xydata(), [[32, 3200], [64, 6400], [128, 12_800]])
    assert caps[0].get_ydata()[0] == pytest.approx(3200 / 1.03)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        *("cpu bf16", "cpu fp32", "gpu bf16", "gpu fp32"),
    ]


def test_a_line_joins_no_cells_of_another_protocol(tmp_path: Path, maker) -> None:
    records = [maker.ok(maker.cell(batch_size=32), 10), maker.ok(maker.cell(batch_size=64, protocol="fit"), 10)]
    figure = by_batch.throughput(read.read(maker.suite(tmp_path, records)).ok_rows, "title", "")
    assert [len(container[0].get_xdata()) for container in figure.axes[0].containers] == [1, 1]


def test_nothing_to_show_is_no_picture() -> None:
    assert by_batch.throughput([], "title", "") is None
    assert by_batch.latency([], "title", "") is None


def test_what_too_few_samples_cannot_support_is_not_drawn(tmp_path: Path, maker) -> None:
    cell = maker.cell()
    few = maker.measurement(cell, 1000).blocks[:3]
    rows = read.read(maker.suite(tmp_path, [maker.ok(cell, 1000, blocks=few, latency_s=[0.01] * 30)])).ok_rows
    assert (rows[0]["samples_per_s_low"], rows[0]["latency_p90_ms"], rows[0]["latency_p99_ms"]) == (None, None, None)
    (throughput,) = by_batch.throughput(rows, "title", "").axes
    assert len(throughput.containers[0][0].get_xdata()) == 1
    assert np.isnan(np.asarray(throughput.containers[0][1][0].get_ydata(), float)).all()
    (latency,) = by_batch.latency(rows, "title", "").axes
    assert latency.lines[0].get_ydata() == pytest.approx([10])
    assert all(len(segment) < 2 for bars in latency.collections for segment in bars.get_segments())
