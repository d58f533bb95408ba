"""Pictures of throughput and latency against batch size, of ok rows; None if there is nothing to show."""

from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator

from accelbench.report.pictures.style import (
    COLOURS,
    DPI,
    LINE_COLUMNS,
    MARKERS,
    Setting,
    add_legend,
    add_title,
    batch_axis,
    distinct_settings,
    line_style,
    setting_label,
    tidy,
)
from accelbench.report.tables.options import options_text
from accelbench.schema.record import Row
from accelbench.schema.vocab import Device, Engine, Mode, Precision

PANEL_INCH = 2.6  # the width of a panel, at least


def throughput(rows: Sequence[Row], title: str, warning: str) -> Figure | None:
    """Samples/s against batch size: a column per model, a row per mode, a line per device and precision."""

    def draw(axes: Axes, line: pd.DataFrame, setting: Setting) -> None:
        rate = line["samples_per_s"].astype(float)
        low = rate - line["samples_per_s_low"].astype(float)
        high = line["samples_per_s_high"].astype(float) - rate
        axes.errorbar(
            line["batch_size"].astype(int),
            rate,
            yerr=[low, high],
            markersize=5,
            linewidth=1.3,
            capsize=3,
            **_style(setting),
        )

    return _panels(_known(rows, "samples_per_s"), title, warning, "samples/s", draw)


def latency(rows: Sequence[Row], title: str, warning: str) -> Figure | None:
    """Latency p50 against batch size, in the same panels, with bars up to p90 (thick) and p99 (thin)."""
    frame = _known(rows, "latency_p50_ms")
    shown = _settings(frame)

    def draw(axes: Axes, line: pd.DataFrame, setting: Setting) -> None:
        # Side by side, so that the bars of one batch size do not hide one another.
        shift = 2 ** (0.12 * (shown.index(setting) - (len(shown) - 1) / 2))
        batches = line["batch_size"].astype(float) * shift
        p50, p90, p99 = (line[f"latency_p{percentile}_ms"].astype(float) for percentile in (50, 90, 99))
        axes.vlines(batches, p50, p99, color=COLOURS[setting[0]], linewidth=1)
        axes.vlines(batches, p50, p90, color=COLOURS[setting[0]], linewidth=3)
        axes.plot(batches, p50, linewidth=1, markersize=4, **_style(setting))

    return _panels(frame, title, warning, "latency (ms)", draw)


def _known(rows: Sequence[Row], column: str) -> pd.DataFrame:
    """The rows with a value in `column`, their options as one text."""
    known = [row | {"options": options_text(row) or ""} for row in rows if row[column] is not None]
    return pd.DataFrame(known, dtype=object)


def _settings(frame: pd.DataFrame) -> list[Setting]:
    if frame.empty:
        return []
    return distinct_settings(zip(frame["device"], frame["precision"], frame["options"], strict=True))


Draw = Callable[[Axes, pd.DataFrame, Setting], None]


def _panels(frame: pd.DataFrame, title: str, warning: str, unit: str, draw: Draw) -> Figure | None:
    """Small multiples over batch size, both axes logarithmic, with one legend below."""
    if frame.empty:
        return None
    models = list(dict.fromkeys(frame["model"]))
    modes = [mode for mode in Mode if (frame["mode"] == mode).any()]
    width = max(6.5, (PANEL_INCH + 0.4) * len(models) + 0.6)
    figure = Figure(figsize=(width, 2.5 * len(modes) + 1.1), layout="constrained", dpi=DPI)
    grid = figure.subplots(len(modes), len(models), squeeze=False, sharex=True)
    for row, mode in zip(grid, modes, strict=True):
        for axes, model in zip(row, models, strict=True):
            panel = frame[(frame["mode"] == mode) & (frame["model"] == model)]
            for (device, precision, options, *_), line in panel.groupby(LINE_COLUMNS, sort=False, dropna=False):
                ordered = line.sort_values(["batch_size", "seed", "repeat"])
                draw(axes, ordered, (Device(device), Precision(precision), options))
            _scale(axes, panel, sorted(set(frame["batch_size"])))
            axes.set_title(f"{model}, {mode}", fontsize=10)
        row[0].set_ylabel(unit)
    for axes in grid[-1]:
        axes.set_xlabel("batch size")
    handles = [Line2D([], [], label=setting_label(setting), **_style(setting)) for setting in _settings(frame)]
    add_legend(figure, handles, max(3, int(width / 1.6)))
    add_title(figure, title, warning)
    return figure


def _style(setting: Setting) -> dict[str, Any]:
    """A colour per device, a marker per precision (hollow for mixed ones), a line style per options.

    Keras' markers are half filled: a line style alone would not show a single batch.
    """
    device, precision, options = setting
    is_mixed = precision in (Precision.fp16_mixed, Precision.bf16_mixed)
    colour = COLOURS[device]
    return {
        "color": colour,
        "marker": MARKERS[precision],
        "markerfacecolor": "white" if is_mixed else colour,
        "fillstyle": "left" if Engine.keras in options else "full",
        "linestyle": line_style(options),
    }


def _scale(axes: Axes, panel: pd.DataFrame, batches: Sequence[int]) -> None:
    """Logarithmic axes with a tick per batch."""
    upright = len(batches) > 6
    batch_axis(axes, batches, PANEL_INCH, upright=upright)
    axes.tick_params(axis="x", labelrotation=90 if upright else 0)
    if panel.empty:
        axes.text(0.5, 0.5, "no ok cell", transform=axes.transAxes, ha="center", color="grey")
        axes.set_yticks([])
        return
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    axes.set_ylim(low / 1.5, high * 1.5)  # room for at least two labelled ticks, however close the values
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=12))
    axes.yaxis.set_major_formatter("{x:,.9g}")
    tidy(axes)
