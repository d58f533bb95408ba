"""Study 003's summary as one picture: the devices, the best batch of each network, and what follows from them."""

import textwrap

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from accelbench.report.pictures.style import DPI, head
from accelbench.report.read import Sweep
from accelbench.report.tables import batch_scaling
from accelbench.report.tables.table import Table

MAX_COLUMNS = 6  # of a table, which stands upright: a column for each of its rows
WIDTH, LINE = 11.0, 0.24  # inches
CHARACTERS = 165  # of a line of text
VALUE_CHARACTERS = 108  # of all values beside each other


def summary_page(sweep: Sweep, head_lines: tuple[str, str]) -> Figure | None:
    """Devices, key figures and conclusions on one page; None where no batches are compared."""
    best = batch_scaling.best_batch(sweep)
    if best is None:
        return None
    tables = [table for table in (batch_scaling.devices(sweep), best) if table is not None]
    told = [
        line for sentence in batch_scaling.conclusions(sweep) for line in textwrap.wrap(f"• {sentence}", CHARACTERS)
    ]
    heights = [LINE * (_num_lines(table) + 2.5) for table in tables] + [LINE * (len(told) + 2)]
    figure = Figure(figsize=(WIDTH, sum(heights) + 0.8), layout="constrained", dpi=DPI)
    *places, below = figure.subplots(len(heights), 1, height_ratios=heights)
    for axes, table in zip(places, tables, strict=True):
        _draw(axes, table)
    below.set_axis_off()
    below.set_title("Conclusions", fontsize=10, loc="left")
    below.text(0, 1, "\n".join(told) or "Fewer than three batches: none.", va="top", fontsize=8.5, linespacing=1.6)
    head(figure, head_lines)
    return figure


def _cells(table: Table) -> list[list[str]]:
    """A line for each heading, with the value of each of the first rows, wrapped to its column."""
    rows = table.rows[:MAX_COLUMNS]
    room = VALUE_CHARACTERS // len(rows)
    return [
        ["\n".join(textwrap.wrap(row[index].text, room)) or "–" for row in rows] for index in range(len(table.headings))
    ]


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
