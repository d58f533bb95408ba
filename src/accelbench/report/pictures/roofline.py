"""How near each cell comes to the ceiling of its device."""

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullFormatter

from accelbench.judging.row import ceilings_of
from accelbench.presentation import significant
from accelbench.report.pictures.style import (
    COLOURS,
    DPI,
    MARKERS,
    Setting,
    add_legend,
    add_title,
    distinct_settings,
    setting_label,
    setting_of,
    tidy,
)
from accelbench.report.read import ReportedCell
from accelbench.report.study_comparison import one_per_setting
from accelbench.schema.vocab import Engine, Mode

GIGA = 1e9
MAX_NAMED = 14  # points of a panel that still have room for their names
# Where a name stands beside its point, in points: another one for each named point that is so near, in powers of ten.
PLACES, NEAR = ((4, 3), (-4, -8), (4, -8), (-4, 3)), 0.4


def roofline(cells: Sequence[ReportedCell], title: str, warning: str) -> Figure | None:
    """Operations per second against operations per byte, under the roof of each device and precision.

    The roof is what arithmetic and memory allow (Williams, Waterman and Patterson, "Roofline: an insightful visual
    performance model", CACM 52, 2009), both as measured. Bytes are estimated as if there were no caches, so that a
    point may lie above the slope. None if no cell has operations, bytes and ceilings.
    """
    known = [
        reported
        for reported in one_per_setting(reported for reported in cells if reported.is_ok)
        if reported.number("flops_per_s") and reported.number("bytes_per_sample") and _ceiling(reported)
    ]
    if not known:
        return None
    modes = [mode for mode in Mode if any(reported.cell.mode == mode for reported in known)]
    figure = Figure(figsize=(5.2 * len(modes) + 1.4, 4.4), layout="constrained", dpi=DPI)
    for axes, mode in zip(figure.subplots(1, len(modes), squeeze=False, sharey=True)[0], modes, strict=True):
        _draw_panel(axes, [reported for reported in known if reported.cell.mode == mode])
        axes.set_title(mode, fontsize=10, loc="left")
        axes.set_xlabel("operations per byte (estimated)")
    figure.axes[0].set_ylabel("GFLOP/s")
    handles = [
        Line2D([], [], color=COLOURS[shown[0]], marker=MARKERS[shown[1]], linewidth=1, label=setting_label(shown))
        for shown in distinct_settings(setting_of(reported.row) for reported in known)
    ]
    add_legend(figure, handles, max(2, len(handles)))
    add_title(figure, title, warning)
    return figure


def _ceiling(reported: ReportedCell) -> tuple[float, float] | None:
    """The most operations and bytes per second that the cell's devices reach."""
    ceilings = ceilings_of(reported.record) if reported.record else None
    rate = ceilings.ceiling_of(reported.cell.precision) if ceilings else None
    return (rate, ceilings.memory_bytes_per_s) if ceilings and rate else None


def _draw_panel(axes: Axes, cells: Sequence[ReportedCell]) -> None:
    points = [
        (reported, (reported.number("flops_per_sample") or 0) / (reported.number("bytes_per_sample") or 1))
        for reported in cells
    ]
    low, high = min(x for _, x in points) / 3, max(x for _, x in points) * 3
    roofs: dict[Setting, tuple[float, float]] = {}
    named: list[tuple[float, float]] = []
    for reported, intensity in points:
        setting = setting_of(reported.row)
        ceiling = _ceiling(reported)
        assert ceiling is not None, "`known` has only cells with a ceiling"
        best = roofs.get(setting, (0.0, 0.0))
        roofs[setting] = max(best[0], ceiling[0]), max(best[1], ceiling[1])
        rate = (reported.number("flops_per_s") or 0) / GIGA
        axes.plot(intensity, rate, MARKERS[setting[1]], color=COLOURS[setting[0]], markersize=5, alpha=0.8)
        if len(points) <= MAX_NAMED:
            engine = "" if reported.cell.engine == Engine.lightning else f" {reported.cell.engine}"
            name = f"{reported.cell.model.name} b{reported.cell.batch_size}{engine}"
            near = sum(math.dist(point, _place(intensity, rate)) < NEAR for point in named)
            x, y = PLACES[near % len(PLACES)]
            side = "left" if x > 0 else "right"
            axes.annotate(name, (intensity, rate), (x, y), textcoords="offset points", fontsize=6, ha=side)
            named.append(_place(intensity, rate))
    for setting, roof in roofs.items():
        _draw_roof(axes, setting, roof, low, high)
    for axis, scale in ((axes.xaxis, axes.set_xscale), (axes.yaxis, axes.set_yscale)):
        scale("log")
        axis.set_major_formatter("{x:,g}")
        axis.set_minor_formatter(NullFormatter())
    tidy(axes)


def _place(intensity: float, rate: float) -> tuple[float, float]:
    """Where a point lies on the logarithmic axes."""
    return math.log10(intensity), math.log10(rate or 1.0)


def _draw_roof(axes: Axes, setting: Setting, roof: tuple[float, float], low: float, high: float) -> None:
    """A slope of bytes per second, and beyond the ridge a level of operations per second."""
    rate, memory = roof
    ridge = rate / memory
    xs = sorted({low, high, *([ridge] if low < ridge < high else [])})
    colour = COLOURS[setting[0]]
    axes.plot(xs, [min(rate, x * memory) / GIGA for x in xs], color=colour, linewidth=1)
    text, end = f"{setting[1]} {significant(rate / GIGA)}", (high, min(rate, high * memory) / GIGA)
    axes.annotate(text, end, fontsize=6, color=colour, ha="right", va="bottom")
