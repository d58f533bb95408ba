"""Speed against latency in inference: the settings that no other beats in both, as a table and as a picture."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from accelbench.answers.cells import MeasuredCell
from accelbench.answers.ranking import Answer
from accelbench.presentation import significant
from accelbench.report.pictures import style
from accelbench.report.tables.table import Column, Table, count, number, tabulate_known
from accelbench.schema.vocab import Mode

SPEED, LATENCY = "samples_per_s", "latency_p50_ms"
MAX_NAMED = 6  # points of a front: the fastest, the soonest done, and others evenly between
HEIGHT_INCH, WIDTH_INCH = 1.9, 5.4  # of a panel, with the names beside it
ABOVE, BELOW = 6, -13  # a point's number, in points of type
NEAR = 0.09  # of a panel, within which numbers on the same side of their points may touch
LINE_SHARE = 1 / MAX_NAMED  # of a panel's height, for a name


@dataclass(frozen=True)
class TradeOff:
    """The inference of one model."""

    answer: Answer
    cells: list[MeasuredCell]  # those with a known latency, at least two
    front: list[MeasuredCell]  # no other has both more samples/s and a shorter median step; the fastest first

    @property
    def width(self) -> float:
        """How many times as long as the soonest cell's step the fastest cell's takes."""
        return (self.front[0].number(LATENCY) or 1.0) / (self.front[-1].number(LATENCY) or 1.0)


def trade_off(answer: Answer) -> TradeOff | None:
    """The model's trade-off; None in training, and without two cells of known latency."""
    cells = [each for each in answer.group.cells if each.number(LATENCY)]
    if answer.fastest.cell.mode != Mode.infer or len(cells) < 2:
        return None
    front: list[MeasuredCell] = []
    for each in cells:  # the fastest first: each later one has to be sooner done
        if not front or (each.number(LATENCY) or 0.0) < (front[-1].number(LATENCY) or 0.0):
            front.append(each)
    return TradeOff(answer, cells, front)


COLUMNS: list[Column[tuple[TradeOff, MeasuredCell]]] = [
    Column("model, and what is done", lambda each: each[0].answer.group.what),
    Column("setting", lambda each: each[0].answer.group.setting(each[1])),
    Column("batch", lambda each: each[1].cell.batch_size, count),
    Column("samples/s", lambda each: each[1].number(SPEED), number),
    Column("p50 (ms)", lambda each: each[1].number(LATENCY), number),
    Column("p99 (ms)", lambda each: each[1].number("latency_p99_ms"), number),
]


def table(found: Sequence[TradeOff]) -> Table | None:
    """A line for each setting of a front; None without any."""
    lines = [(each, reported) for each in found for reported in each.front]
    return tabulate_known("Settings that no other beats in both speed and latency", COLUMNS, lines)


def picture(found: Sequence[TradeOff]) -> Figure:
    """A panel for each model, at least one: the points of the front have numbers, and names beside the panel."""
    title = "Speed against latency: up and to the left is better"
    if len(found) > style.MAX_PANELS:
        title += f" ({style.MAX_PANELS} of {len(found)} models, those with the widest choice)"
    shown = sorted(found, key=lambda each: -each.width)[: style.MAX_PANELS]
    figure, drawn = style.panels(len(shown), WIDTH_INCH, HEIGHT_INCH)
    for axes, each in zip(drawn, shown, strict=True):
        _draw(axes, each)
        style.add_panel_title(axes, each.answer.title, WIDTH_INCH)
    return style.finished(figure, title)


def _draw(axes: Axes, each: TradeOff) -> None:
    axes.plot(*zip(*map(_point, each.front), strict=True), color="#888888", linewidth=1, zorder=1)
    names = {reported.name for reported in each.front}
    for reported in each.cells:
        colour, mark = style.COLOURS[reported.cell.device], style.MARKERS[reported.cell.precision]
        size, alpha = (6, 1.0) if reported.name in names else (4, 0.35)
        axes.plot(*_point(reported), mark, color=colour, markersize=size, alpha=alpha, linestyle="")
    axes.set_xscale("log")
    axes.set_yscale("log")
    style.log_ticks(axes.xaxis)
    style.log_ticks(axes.yaxis)
    style.widen(axes)
    axes.margins(x=0.15)
    axes.set_xlabel("median step (ms)", fontsize=8)
    axes.set_ylabel("samples/s", fontsize=8)
    style.tidy(axes)
    before, place = None, ABOVE
    for num, cell in enumerate(_named(each.front), 1):
        point = _point(cell)
        is_near = before is not None and _distance(axes, before, point) < NEAR
        before, place = point, BELOW if is_near and place == ABOVE else ABOVE
        axes.annotate(str(num), point, (0, place), textcoords="offset points", fontsize=7.5, ha="center")
        axes.annotate(
            f"{num}  {each.answer.group.setting(cell)}, batch {cell.cell.batch_size}\n"
            f"    {significant(point[1])}/s, {significant(point[0])} ms",
            (1.04, 1.0 - LINE_SHARE * (num - 1)),
            xycoords="axes fraction",
            fontsize=7.5,
            va="top",
            color=style.COLOURS[cell.cell.device],
        )


def _distance(axes: Axes, one: tuple[float, float], other: tuple[float, float]) -> float:
    """How far two points are apart, as a share of the panel, in the direction in which that is more."""
    limits = zip(one, other, (axes.get_xlim(), axes.get_ylim()), strict=True)
    return max(abs(math.log(b / a)) / math.log(high / low) for a, b, (low, high) in limits)


def _point(reported: MeasuredCell) -> tuple[float, float]:
    """Its median step in milliseconds, and its samples/s, both known."""
    return reported.number(LATENCY) or 1.0, reported.number(SPEED) or 1.0


def _named(front: Sequence[MeasuredCell]) -> list[MeasuredCell]:
    if len(front) <= MAX_NAMED:
        return list(front)
    return [front[round(index * (len(front) - 1) / (MAX_NAMED - 1))] for index in range(MAX_NAMED)]
