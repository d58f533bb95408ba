"""A line for each of some cells, with its name and its value: a dot, or where a step's time goes."""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from accelbench.answers.process import Process
from accelbench.judging.row import phases_ms
from accelbench.presentation import PHASE_COLOURS, significant
from accelbench.report.pictures.style import COLOURS, MARKERS, finished, log_ticks, sized, tidy
from accelbench.schema.cell import Cell
from accelbench.schema.vocab import Phase

MAX_DOTS, MAX_BARS = 32, 40
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

    Of more than `MAX_DOTS` ratios those farthest from 1 are drawn, of other values the largest. `axis` says what the
    values are. Ratios are drawn on a logarithmic scale around 1, which stands for `base`; None for other values.
    """
    if len(found) < 2:
        return None
    title += f": {MAX_DOTS} of {len(found)}" * (len(found) > MAX_DOTS)
    shown = sorted(found, key=lambda dot: -max(dot.value, 1 / dot.value if base else 0.0))[:MAX_DOTS]
    shown.sort(key=lambda dot: -dot.value)
    figure = sized(8.5, 0.24 * len(shown) + 1.6)
    axes = _named_lines(figure, [dot.name for dot in shown], 8)
    for index, dot in enumerate(shown):
        colour = COLOURS[dot.cell.device]
        axes.plot([1 if base else 0, dot.value], [index, index], color=colour, linewidth=1.6, alpha=0.5)
        axes.plot(dot.value, index, MARKERS[dot.cell.precision], color=colour, markersize=6)
        side, alignment = (-7, "right") if base and dot.value < 1 else (7, "left")
        place = (dot.value, index)
        axes.annotate(dot.text, place, (side, 0), textcoords="offset points", fontsize=7.5, va="center", ha=alignment)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
    values = [dot.value for dot in shown]
    if base is None:
        axes.set_xlim(0, 1.3 * max(values))
    else:
        axes.set_xscale("log")
        axes.set_xlim(min([1.0, *values]) / ROOM, max([1.0, *values]) * ROOM)
        log_ticks(axes.xaxis, 12, "{x:g}")
        axes.axvline(1, color="#444444", linewidth=1)
        axes.annotate(base, (1, -0.6), (0, 2), textcoords="offset points", fontsize=7.5, ha="center", va="bottom")
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


def _named_lines(figure: Figure, names: Sequence[str], font_size: int) -> Axes:
    axes = figure.subplots()
    axes.set_yticks(range(len(names)), names, fontsize=font_size)
    return axes


def phases(cells: Sequence[Process], title: str) -> Figure | None:
    """A bar per cell, the phases as shares of a step's wall time; None if no cell has two phases or more."""
    known = [(reported, lengths) for reported in cells if (lengths := phases_ms(reported.row))]
    if all(len([ms for ms in lengths.values() if ms]) < 2 for _, lengths in known):
        return None
    title += f": the first {MAX_BARS} of {len(known)} cells" * (len(known) > MAX_BARS)
    known = known[:MAX_BARS]
    figure = sized(8.5, 0.22 * len(known) + 1.5)
    axes = _named_lines(figure, [reported.label for reported, _ in known], 7)
    for index, (_, lengths_ms) in enumerate(known):
        total_ms, left = sum(lengths_ms.values()), 0.0
        for phase, length_ms in lengths_ms.items():
            axes.barh(index, 100 * length_ms / total_ms, 0.78, left, color=PHASE_COLOURS[phase])
            left += 100 * length_ms / total_ms
        text = f"{significant(total_ms)} ms"
        axes.annotate(text, (100, index), (3, 0), textcoords="offset points", fontsize=7, va="center")
    axes.set_ylim(len(known) - 0.4, -0.6)
    axes.set_xlim(0, 100)
    axes.set_xlabel("% of a step's wall time")
    tidy(axes)
    axes.grid(visible=False, axis="y")
    shown = [phase for phase in Phase if any(reported.number(f"breakdown_{phase}_ms") for reported, _ in known)]
    handles = [Patch(color=PHASE_COLOURS[phase], label=phase.replace("_", " ")) for phase in shown]
    return finished(figure, title, handles=handles, num_columns=5)
