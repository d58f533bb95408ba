from pathlib import Path

import pytest
from matplotlib.image import imread

from accelbench.report.pictures import style
from accelbench.schema.vocab import Device, Precision


@pytest.mark.parametrize("kind", ["times", "throughput", "latency"])
def test_a_picture_is_a_png_that_is_not_blank(report: Path, kind: str) -> None:
    path = report / "plots" / f"{kind}_nets.png"
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
