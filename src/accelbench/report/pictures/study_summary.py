"""Study 003's summary as one picture: the devices, the best batch of each network, and what follows from them."""

import textwrap

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from accelbench.presentation import UNKNOWN
from accelbench.report.pictures.style import DPI, add_title
from accelbench.report.read import Sweep
from accelbench.report.tables import batch_scaling, device_pairs
from accelbench.report.tables.table import Table

MAX_COLUMNS = 6  # tables are transposed here: a column per row of the report's table
WIDTH, LINE_HEIGHT = 11.0, 0.24  # inches
CHARACTERS = 165  # in a line of text
VALUE_CHARACTERS = 108  # in a line of values, over all columns


def summary_page(sweep: Sweep, title: str, warning: str) -> Figure | None:
    """Devices, key figures and conclusions on one page; None if no batches are compared."""
    best = batch_scaling.best_batch(sweep)
    if best is None:
        return None
    found = (batch_scaling.devices(sweep), best, device_pairs.table(sweep))
    tables = [table for table in found if table is not None]
    bullets = [f"• {sentence}" for sentence in batch_scaling.conclusions(sweep)]
    text = [line for bullet in bullets for line in textwrap.wrap(bullet, CHARACTERS)]
    heights = [LINE_HEIGHT * (_num_lines(table) + 2.5) for table in tables] + [LINE_HEIGHT * (len(text) + 2)]
    figure = Figure(figsize=(WIDTH, sum(heights) + 0.8), layout="constrained", dpi=DPI)
    *panels, below = figure.subplots(len(heights), 1, height_ratios=heights)
    for axes, table in zip(panels, tables, strict=True):
        _draw(axes, table)
    below.set_axis_off()
    below.set_title("Conclusions", fontsize=10, loc="left")
    below.text(0, 1, "\n".join(text) or "Fewer than three batches: none.", va="top", fontsize=8.5, linespacing=1.6)
    add_title(figure, title, warning)
    return figure


def _cells(table: Table) -> list[list[str]]:
    """One line per heading: the texts of the first rows, each wrapped to the width of a column."""
    rows = table.rows[:MAX_COLUMNS]
    room = VALUE_CHARACTERS // len(rows)
    indices = range(len(table.headings))
    return [["\n".join(textwrap.wrap(row[index].text, room)) or UNKNOWN for row in rows] for index in indices]


def _num_lines(table: Table) -> int:
    return sum(max(text.count("\n") + 1 for text in line) for line in _cells(table))


def _draw(axes: Axes, table: Table) -> None:
    axes.set_axis_off()
    left_out = len(table.rows) - MAX_COLUMNS
    more = f" (and {left_out} more in the report's table)" if left_out > 0 else ""
    axes.set_title(table.title + more, fontsize=10, loc="left")
    lines = _cells(table)
    drawn = axes.table(
        lines, rowLabels=table.headings, cellLoc="left", rowLoc="left", bbox=Bbox.from_bounds(0.18, 0, 0.82, 1)
    )
    drawn.auto_set_font_size(False)
    drawn.set_fontsize(8)
    num_lines = _num_lines(table)
    for (row, _), cell in drawn.get_celld().items():
        cell.set_edgecolor("#dddddd")
        cell.set_height(max(text.count("\n") + 1 for text in lines[row]) / num_lines)
