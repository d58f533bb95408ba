"""Speed against batch size, with the latency beside it, for each model."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from accelbench.answers.cells import MeasuredCell
from accelbench.answers.ranking import Answer
from accelbench.report.pictures.direct_labels import Named, label_right
from accelbench.report.pictures.style import COLOURS, DPI, MARKERS, add_panel_title, add_title, batch_axis, tidy, widen

MAX_PANELS = 8
MAX_LINES = 5  # of a panel: the fastest settings
HEIGHT_INCH, WIDTH_INCH = 1.6, 5.6  # of a pair of panels
AXIS_INCH = 1.4
SPEED, LATENCY = "samples_per_s", "latency_p50_ms"


def batch_lines(answers: Sequence[Answer]) -> Figure | None:
    """Two panels for each model and mode, a line for each setting; None if no setting has two batch sizes."""
    known = [(answer, lines) for answer in answers if (lines := _lines(answer))]
    if not known:
        return None
    title = f"Speed against batch size, with the latency beside it, of at most {MAX_LINES} settings"
    if len(known) > MAX_PANELS:
        title += f": {MAX_PANELS} of {len(known)} models"
        known = sorted(known, key=lambda pair: -max(len(cells) for cells in pair[1]))[:MAX_PANELS]
    num_columns = min(2, len(known))
    num_rows = -(-len(known) // num_columns)
    figure = Figure(
        figsize=(WIDTH_INCH * num_columns, (HEIGHT_INCH + 0.75) * num_rows + 0.5), layout="constrained", dpi=DPI
    )
    grid = figure.subplots(num_rows, 2 * num_columns, squeeze=False)
    panels = [axes for row in grid for axes in row]
    for index, (answer, lines) in enumerate(known):
        speed, latency = panels[2 * index : 2 * index + 2]
        _draw(speed, lines, SPEED)
        _draw(latency, lines, LATENCY)
        add_panel_title(speed, answer.title, WIDTH_INCH)
        speed.set_ylabel("samples/s", fontsize=8)
        latency.set_ylabel("median step (ms)", fontsize=8)
        ends = [
            Named(
                cells[-1].cell.batch_size,
                cells[-1].number(SPEED) or 1.0,
                answer.group.setting(cells[0]),
                COLOURS[cells[0].cell.device],
            )
            for cells in lines
        ]
        label_right(speed, ends, HEIGHT_INCH)
    for axes in panels[2 * len(known) :]:
        axes.remove()
    add_title(figure, title, "")
    return figure


def _lines(answer: Answer) -> list[list[MeasuredCell]]:
    """The cells of each setting in the order of their batch sizes, the fastest settings; empty without two sizes."""
    lines: dict[str, list[MeasuredCell]] = {}
    for reported in answer.group.cells:
        lines.setdefault(answer.group.setting(reported), []).append(reported)
    several = [cells for cells in lines.values() if len({each.cell.batch_size for each in cells}) > 1]
    return [sorted(cells, key=lambda each: each.cell.batch_size) for cells in several[:MAX_LINES]]


def _draw(axes: Axes, lines: Sequence[Sequence[MeasuredCell]], column: str) -> None:
    for cells in lines:
        device, precision = cells[0].cell.device, cells[0].cell.precision
        points = [(each.cell.batch_size, value) for each in cells if (value := each.number(column))]
        axes.plot(
            [batch for batch, _ in points],
            [value for _, value in points],
            color=COLOURS[device],
            marker=MARKERS[precision],
            markersize=4.5,
            linewidth=1.2,
        )
        for each in cells:
            low, high = each.number(f"{column}_low"), each.number(f"{column}_high")
            if low is not None and high is not None:
                axes.vlines(each.cell.batch_size, low, high, color=COLOURS[device], linewidth=2.5, alpha=0.35)
    batches = sorted({each.cell.batch_size for cells in lines for each in cells})
    batch_axis(axes, batches, AXIS_INCH)
    axes.set_xlabel("batch size", fontsize=8)
    if not any(each.number(column) for cells in lines for each in cells):
        axes.text(0.5, 0.5, "not known", transform=axes.transAxes, ha="center", fontsize=8, color="grey")
        axes.set(xticks=[], yticks=[])
        tidy(axes)
        return
    axes.set_yscale("log")
    widen(axes)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=8))
    axes.yaxis.set_major_formatter("{x:,.9g}")
    axes.yaxis.set_minor_formatter(NullFormatter())
    tidy(axes)
