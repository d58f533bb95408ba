"""What the pictures share: colours, markers, figures, titles, legends and axes."""

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, LogLocator, NullFormatter

from accelbench.schema.vocab import Device, Precision

DPI = 130
TITLE_LETTERS, PANEL_LETTERS = 11.0, 11.5  # per inch, of a picture's title and of a panel's
DIGIT_INCH = 0.072  # the width of a digit on an axis
BATCH_MARGIN = 0.12  # of the axis, on either side of the batch sizes
MAX_PANELS = 8  # of a picture
# Okabe and Ito's colours, which colour-blind readers can tell apart.
COLOURS = {Device.cpu: "#0072B2", Device.gpu: "#009E73", Device.tpu: "#D55E00", Device.xla_cpu: "#CC79A7"}
MARKERS = dict(zip(Precision, "Dsov^P*H", strict=True))
WARNING_COLOUR = "#b3261e"


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A picture of the report: its path in the report's folder, and a text that describes it."""

    path: str
    alt: str
    figure: Figure

    @property
    def width_inch(self) -> float:
        """The drawn width in inches."""
        return float(self.figure.get_figwidth())


def sized(width_inch: float, height_inch: float) -> Figure:
    """A figure without axes."""
    return Figure(figsize=(width_inch, height_inch), layout="constrained", dpi=DPI)


def panels(num: int, width_inch: float, height_inch: float, *, per_panel: int = 1) -> tuple[Figure, list[Axes]]:
    """A figure with panels of this size in one or two columns, each of `per_panel` axes side by side."""
    num_columns = min(2, num)
    num_rows = -(-num // num_columns)
    figure = sized(width_inch * num_columns, (height_inch + 0.75) * num_rows + 0.5)
    grid = figure.subplots(num_rows, per_panel * num_columns, squeeze=False)
    found = [axes for row in grid for axes in row]
    for axes in found[per_panel * num :]:
        axes.remove()
    return figure, found[: per_panel * num]


def finished(
    figure: Figure, title: str, warning: str = "", handles: Sequence[Any] = (), num_columns: int = 1
) -> Figure:
    """The figure with its title, in red a warning about its data (empty for none), and below the panels a legend."""
    if handles:
        place: Any = {"loc": "outside lower center", "ncols": num_columns}
        figure.legend(handles=handles, fontsize=8, frameon=False, **place)
    text = "\n".join(wrapped(each, figure.get_figwidth(), TITLE_LETTERS) for each in (title, warning) if each)
    figure.suptitle(text, fontsize=11, color=WARNING_COLOUR if warning else "black")
    return figure


def wrapped(text: str, inches: float, letters_per_inch: float) -> str:
    """The text in lines that are at most so long. Names, which have no spaces, stay whole."""
    width = int(inches * letters_per_inch)
    return textwrap.fill(text, width, break_on_hyphens=False, break_long_words=False)


def add_panel_title(axes: Axes, title: str, inches: float) -> None:
    """Writes the title of a panel that is so wide, with what stands beside it."""
    axes.set_title(wrapped(title, inches, PANEL_LETTERS), fontsize=9, loc="left")


def batch_axis(axes: Axes, batches: Sequence[int], inches: float) -> None:
    """A logarithmic x-axis with a tick for each of the ascending batch sizes, and a number at each with room for it."""
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(_with_room(batches, inches * (1 - 2 * BATCH_MARGIN))))
    axes.xaxis.set_major_formatter("{x:.0f}")
    axes.xaxis.set_minor_locator(FixedLocator(batches))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.margins(x=BATCH_MARGIN)


def _with_room(batches: Sequence[int], inches: float) -> list[int]:
    """The batch sizes whose numbers do not touch the one before; both ends are among them."""
    per_octave = inches / (math.log2(batches[-1] / batches[0]) or 1.0)

    def touch(before: int, after: int) -> bool:
        letters = (len(str(before)) + len(str(after))) / 2 + 1
        return per_octave * math.log2(after / before) < letters * DIGIT_INCH

    kept = [batches[0]]
    for batch in batches[1:-1]:
        if not touch(kept[-1], batch) and not touch(batch, batches[-1]):
            kept.append(batch)
    return [*kept, *batches[-1:]] if len(batches) > 1 else kept


def log_ticks(axis: Axis, num_ticks: int = 8, text: str = "{x:,.9g}") -> None:
    """Labelled ticks at 1, 2, 5, 10, ... on a logarithmic axis."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=num_ticks))
    axis.set_major_formatter(text)
    axis.set_minor_formatter(NullFormatter())


def widen(axes: Axes, ratio: float = 5.0) -> None:
    """Makes a logarithmic y-axis reach over at least `ratio`: then it has two labelled ticks among 1, 2, 5, 10, ..."""
    low, high = axes.get_ylim()
    factor = max(1.1, (ratio * low / high) ** 0.5)
    axes.set_ylim(low / factor, high * factor)


def tidy(axes: Axes) -> None:
    """Small ticks, a faint grid, no box."""
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.tick_params(labelsize=8)
    axes.grid(axis="y", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
