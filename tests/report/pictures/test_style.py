from pathlib import Path

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.image import imread

from accelbench.report.pictures import style
from accelbench.schema.vocab import Device, Precision


@pytest.mark.parametrize("kind", ["question_precision", "question_batch", "question_latency"])
def test_a_picture_is_a_png_that_is_not_blank(report: Path, kind: str) -> None:
    path = report / "plots" / f"{kind}.png"
    assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    pixels = imread(path)[..., :3]
    assert pixels.shape[1] >= 6 * style.DPI
    inked = (pixels.min(axis=2) < 0.9).mean()
    assert 0.01 < inked < 0.5


def test_settings_are_in_the_vocabularys_order_without_options_first():
    fp32, bf16 = Precision.fp32, Precision.bf16
    shown = [(Device.gpu, fp32, ""), (Device.cpu, fp32, "compile"), (Device.cpu, fp32, ""), (Device.cpu, bf16, "")]
    assert [style.setting_label(setting) for setting in style.distinct_settings([*shown, *shown])] == [
        *("cpu bf16", "cpu fp32", "cpu fp32 compile", "gpu fp32"),
    ]


def test_every_set_of_options_has_a_line_of_its_own():
    sets = ["", "channels_last", "compile", "freeze", "cuda_graphs", "channels_last + compile", "compile + freeze"]
    assert len({str(style.line_style(each)) for each in sets}) == len(sets)


@pytest.mark.parametrize("warning", ["", "NOT MNIST: a stand-in"])
def test_a_long_title_stays_inside_of_its_picture(warning):
    figure = Figure(figsize=(6.5, 3), layout="constrained", dpi=style.DPI)
    figure.subplots()
    name = "2026-11-21_18-00-00-adhoc"
    style.add_title(figure, f"Time per network and device, {name} (~ marks an estimated time)", warning)
    FigureCanvasAgg(figure).draw()
    box = figure._suptitle.get_window_extent()
    assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1
    assert name in figure._suptitle.get_text()
