"""Speed against latency for each model: every setting a point, the unbeaten ones named and joined."""

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from accelbench.answers.cells import MeasuredCell
from accelbench.presentation import significant
from accelbench.report.pictures.style import COLOURS, DPI, MARKERS, add_panel_title, add_title, tidy, widen
from accelbench.report.tables.trade_off import TradeOff

MAX_PANELS = 8
MAX_NAMED = 6  # points of a front: the fastest, the soonest done, and others evenly between
HEIGHT_INCH, WIDTH_INCH = 1.9, 5.4  # of a panel, with the names beside it
ABOVE, BELOW = 6, -13  # a point's number, in points of type
NEAR = 0.09  # of a panel, within which numbers on the same side of their points may touch
LINE_SHARE = 1 / MAX_NAMED  # of a panel's height, for a name


def trade_off(found: Sequence[tuple[str, TradeOff]]) -> Figure | None:
    """A panel for each model, by title: the points of the front have numbers, and their names stand beside the panel.

    None without any.
    """
    if not found:
        return None
    title = "Speed against latency: up and to the left is better"
    if len(found) > MAX_PANELS:
        title += f" ({MAX_PANELS} of {len(found)} models, those with the widest choice)"
    shown = sorted(found, key=lambda pair: -pair[1].width)[:MAX_PANELS]
    num_columns = min(2, len(shown))
    num_rows = -(-len(shown) // num_columns)
    figure = Figure(
        figsize=(WIDTH_INCH * num_columns, (HEIGHT_INCH + 0.75) * num_rows + 0.5), layout="constrained", dpi=DPI
    )
    panels = [axes for row in figure.subplots(num_rows, num_columns, squeeze=False) for axes in row]
    for axes, (name, each) in zip(panels, shown, strict=False):
        _draw(axes, each)
        add_panel_title(axes, name, WIDTH_INCH)
    for axes in panels[len(shown) :]:
        axes.remove()
    add_title(figure, title, "")
    return figure


def _draw(axes: Axes, each: TradeOff) -> None:
    front = [_point(reported) for reported in each.front]
    axes.plot(*zip(*front, strict=True), color="#888888", linewidth=1, zorder=1)
    names = {reported.name for reported in each.front}
    for reported in each.cells:
        is_front = reported.name in names
        axes.plot(
            *_point(reported),
            MARKERS[reported.cell.precision],
            color=COLOURS[reported.cell.device],
            markersize=6 if is_front else 4,
            alpha=1.0 if is_front else 0.35,
            linestyle="",
        )
    for axis, scale in ((axes.xaxis, axes.set_xscale), (axes.yaxis, axes.set_yscale)):
        scale("log")
        axis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=8))
        axis.set_major_formatter("{x:,.9g}")
        axis.set_minor_formatter(NullFormatter())
    widen(axes)
    axes.margins(x=0.15)
    axes.set_xlabel("median step (ms)", fontsize=8)
    axes.set_ylabel("samples/s", fontsize=8)
    tidy(axes)
    before, place = None, ABOVE
    for number, cell in enumerate(_named(each.front), 1):
        point, colour = _point(cell), COLOURS[cell.cell.device]
        is_near = before is not None and _distance(axes, before, point) < NEAR
        before, place = point, BELOW if is_near and place == ABOVE else ABOVE
        axes.annotate(str(number), point, (0, place), textcoords="offset points", fontsize=7.5, ha="center")
        axes.annotate(
            f"{number}  {each.group.setting(cell)}, batch {cell.cell.batch_size}\n"
            f"    {significant(point[1])}/s, {significant(point[0])} ms",
            (1.04, 1.0 - LINE_SHARE * (number - 1)),
            xycoords="axes fraction",
            fontsize=7.5,
            va="top",
            color=colour,
        )


def _distance(axes: Axes, one: tuple[float, float], other: tuple[float, float]) -> float:
    """How far two points are apart, as a share of the panel, in the direction in which that is more."""
    limits = (axes.get_xlim(), axes.get_ylim())
    return max(
        abs(math.log(b / a)) / math.log(high / low) for a, b, (low, high) in zip(one, other, limits, strict=True)
    )


def _point(reported: MeasuredCell) -> tuple[float, float]:
    """Its median step in milliseconds, and its samples/s, both known."""
    return reported.number("latency_p50_ms") or 1.0, reported.number("samples_per_s") or 1.0


def _named(front: Sequence[MeasuredCell]) -> list[MeasuredCell]:
    """At most `MAX_NAMED` of the front, with both of its ends."""
    if len(front) <= MAX_NAMED:
        return list(front)
    return [front[round(index * (len(front) - 1) / (MAX_NAMED - 1))] for index in range(MAX_NAMED)]
