"""Speed against batch size, with the latency beside it, for each model."""

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from accelbench.answers.cells import MeasuredCell
from accelbench.answers.ranking import Answer
from accelbench.report.pictures import style

MAX_LINES = 5  # of a panel: the fastest settings
HEIGHT_INCH, WIDTH_INCH = 1.6, 5.6  # of a pair of panels
AXIS_INCH = 1.4
FONT_SIZE, LINE_HEIGHT = 7, 1.3  # of a line's name, in points, and of that size
POINTS_PER_INCH = 72
SPEED, LATENCY = "samples_per_s", "latency_p50_ms"


def batch_lines(answers: Sequence[Answer]) -> Figure | None:
    """Two panels for each model and mode, a line for each setting; None if no setting has two batch sizes."""
    known = [(answer, lines) for answer in answers if (lines := _lines(answer))]
    if not known:
        return None
    title = f"Speed against batch size, with the latency beside it, of at most {MAX_LINES} settings"
    if len(known) > style.MAX_PANELS:
        title += f": {style.MAX_PANELS} of {len(known)} models"
        known = sorted(known, key=lambda pair: -max(len(cells) for cells in pair[1]))[: style.MAX_PANELS]
    figure, axes = style.panels(len(known), WIDTH_INCH, HEIGHT_INCH, per_panel=2)
    for (answer, lines), speed, latency in zip(known, axes[::2], axes[1::2], strict=True):
        _draw(speed, lines, SPEED)
        _draw(latency, lines, LATENCY)
        style.add_panel_title(speed, answer.title, WIDTH_INCH)
        speed.set_ylabel("samples/s", fontsize=8)
        latency.set_ylabel("median step (ms)", fontsize=8)
        _name(speed, {answer.group.setting(cells[0]): cells[-1] for cells in lines})
    return style.finished(figure, title)


def _lines(answer: Answer) -> list[list[MeasuredCell]]:
    """The cells of each setting in the order of their batch sizes, the fastest settings; empty without two sizes."""
    lines: dict[str, list[MeasuredCell]] = {}
    for reported in answer.group.cells:
        lines.setdefault(answer.group.setting(reported), []).append(reported)
    several = [cells for cells in lines.values() if len({each.cell.batch_size for each in cells}) > 1]
    return [sorted(cells, key=lambda each: each.cell.batch_size) for cells in several[:MAX_LINES]]


def _draw(axes: Axes, lines: Sequence[Sequence[MeasuredCell]], column: str) -> None:
    for cells in lines:
        colour, marker = style.COLOURS[cells[0].cell.device], style.MARKERS[cells[0].cell.precision]
        points = [(each.cell.batch_size, value) for each in cells if (value := each.number(column))]
        batches, values = [batch for batch, _ in points], [value for _, value in points]
        axes.plot(batches, values, color=colour, marker=marker, markersize=4.5, linewidth=1.2)
        for each in cells:
            low, high = each.number(f"{column}_low"), each.number(f"{column}_high")
            if low is not None and high is not None:
                axes.vlines(each.cell.batch_size, low, high, color=colour, linewidth=2.5, alpha=0.35)
    style.batch_axis(axes, sorted({each.cell.batch_size for cells in lines for each in cells}), AXIS_INCH)
    axes.set_xlabel("batch size", fontsize=8)
    if any(each.number(column) for cells in lines for each in cells):
        axes.set_yscale("log")
        style.widen(axes)
        style.log_ticks(axes.yaxis)
    else:
        axes.text(0.5, 0.5, "not known", transform=axes.transAxes, ha="center", fontsize=8, color="grey")
        axes.set(xticks=[], yticks=[])
    style.tidy(axes)


def _name(axes: Axes, ends: dict[str, MeasuredCell]) -> None:
    """Writes each line's name to the right of the panel, at the height of its end; a thin line leads to that."""
    low, high = map(math.log10, axes.get_ylim())
    ordered = sorted(((cell.number(SPEED) or 1.0, name, cell.cell) for name, cell in ends.items()), key=lambda e: e[0])
    gap = LINE_HEIGHT * FONT_SIZE / (POINTS_PER_INCH * HEIGHT_INCH)
    places = moved_apart([(math.log10(speed) - low) / (high - low) for speed, *_ in ordered], gap)
    for (speed, name, cell), place in zip(ordered, places, strict=True):
        colour = style.COLOURS[cell.device]
        axes.annotate(
            name,
            (cell.batch_size, speed),
            (1.05, place),
            textcoords="axes fraction",
            fontsize=FONT_SIZE,
            color=colour,
            va="center",
            arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.5, "alpha": 0.6, "shrinkB": 3},
        )


def moved_apart(places: Sequence[float], gap: float) -> list[float]:
    """The sorted places, moved as little as a few passes find, so that neighbours are at least `gap` apart.

    They stay between 0 and 1 as long as there is room.
    """
    found = list(places)
    for index in range(1, len(found)):
        found[index] = max(found[index], found[index - 1] + gap)
    if found and found[-1] > 1:
        found[-1] = 1.0
        for index in range(len(found) - 2, -1, -1):
            found[index] = min(found[index], found[index + 1] - gap)
    return found
