"""The common style of the pictures: colours, markers, figures, titles, legends and axes."""

import textwrap
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from accelbench.report.extension import DPI
from accelbench.schema.cell import Device, Precision

TITLE_LETTERS = 11.0  # letters per inch of a picture's title
# Okabe and Ito's colours, which colour-blind readers can tell apart.
COLOURS = {Device.cpu: "#0072B2", Device.gpu: "#009E73", Device.tpu: "#D55E00", Device.xla_cpu: "#CC79A7"}
MARKERS = dict(zip(Precision, "Dsov^P*H", strict=True))
WARNING_COLOUR = "#b3261e"


def sized(width_inch: float, height_inch: float) -> Figure:
    """A figure without axes."""
    return Figure(figsize=(width_inch, height_inch), layout="constrained", dpi=DPI)


def finished(
    figure: Figure, title: str, warning: str = "", handles: Sequence[Any] = (), num_columns: int = 1
) -> Figure:
    """Adds a title, a legend below the panels, and a red warning about the data (empty: none). Returns the figure."""
    if handles:
        place: Any = {"loc": "outside lower center", "ncols": num_columns}
        figure.legend(handles=handles, fontsize=8, frameon=False, **place)
    text = "\n".join(wrapped(each, figure.get_figwidth(), TITLE_LETTERS) for each in (title, warning) if each)
    figure.suptitle(text, fontsize=11, color=WARNING_COLOUR if warning else "black")
    return figure


def wrapped(text: str, inches: float, letters_per_inch: float) -> str:
    """The text in lines of at most this width. A name without spaces is never broken."""
    width = int(inches * letters_per_inch)
    return textwrap.fill(text, width, break_on_hyphens=False, break_long_words=False)


def log_ticks(axis: Axis, num_ticks: int = 8, text: str = "{x:,.9g}") -> None:
    """Sets labelled ticks at 1, 2, 5, 10, ... on a logarithmic axis."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=num_ticks))
    axis.set_major_formatter(text)
    axis.set_minor_formatter(NullFormatter())


def tidy(axes: Axes) -> None:
    """Sets small ticks and a faint grid, and removes the box."""
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.tick_params(labelsize=8)
    axes.grid(axis="y", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
