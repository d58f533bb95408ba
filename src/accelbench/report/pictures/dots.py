"""A dot for each of some cells, on a line of its own with its name and its value."""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from accelbench.report.pictures.style import COLOURS, MARKERS, finished, log_ticks, sized
from accelbench.schema.cell import Cell

MAX_DOTS = 32
ROOM = 2.2  # for the texts at both ends of a logarithmic axis


@dataclass(frozen=True, kw_only=True)
class Dot:
    """A value above 0 of one cell, which gives the colour and the mark, with the texts at its left and beside it."""

    name: str
    value: float
    text: str
    cell: Cell


def dots(found: Sequence[Dot], title: str, axis: str, base: str | None = None) -> Figure | None:
    """A line for each dot, the largest first; None for a single one, which its sentence says better.

    Args:
        found: what is drawn; of more than `MAX_DOTS` ratios those farthest from 1, of other values the largest.
        title: of the picture.
        axis: what the values are.
        base: what a value of 1 stands for: ratios are drawn on a logarithmic scale around it. None for other values.
    """
    if len(found) < 2:
        return None
    if len(found) > MAX_DOTS:
        title += f": {MAX_DOTS} of {len(found)}"
    shown = sorted(found, key=lambda dot: -max(dot.value, 1 / dot.value if base else 0.0))[:MAX_DOTS]
    shown.sort(key=lambda dot: -dot.value)
    figure = sized(8.5, 0.24 * len(shown) + 1.6)
    axes = figure.subplots()
    for index, dot in enumerate(shown):
        colour = COLOURS[dot.cell.device]
        axes.plot([1 if base else 0, dot.value], [index, index], color=colour, linewidth=1.6, alpha=0.5)
        axes.plot(dot.value, index, MARKERS[dot.cell.precision], color=colour, markersize=6)
        side, alignment = (-7, "right") if base and dot.value < 1 else (7, "left")
        place = (dot.value, index)
        axes.annotate(dot.text, place, (side, 0), textcoords="offset points", fontsize=7.5, va="center", ha=alignment)
    axes.set_yticks(range(len(shown)), [dot.name for dot in shown], fontsize=8)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    _scale(axes, [dot.value for dot in shown], base)
    axes.set_xlabel(axis)
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    kinds = dict.fromkeys((dot.cell.device, dot.cell.precision) for dot in shown)
    handles = [
        Line2D([], [], linestyle="", color=COLOURS[device], marker=MARKERS[precision], label=f"{device} {precision}")
        for device, precision in kinds
    ]
    return finished(figure, title, handles=handles, num_columns=max(3, min(6, len(handles))))


def _scale(axes: Axes, values: Sequence[float], base: str | None) -> None:
    """Ratios: a logarithmic axis with a line at 1. Percentages: from 0 on."""
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
    if base is None:
        axes.set_xlim(0, 1.3 * max(values))
        return
    axes.set_xscale("log")
    axes.set_xlim(min([1.0, *values]) / ROOM, max([1.0, *values]) * ROOM)
    log_ticks(axes.xaxis, 12, "{x:g}")
    axes.axvline(1, color="#444444", linewidth=1)
    axes.annotate(base, (1, -0.6), (0, 2), textcoords="offset points", fontsize=7.5, ha="center", va="bottom")
