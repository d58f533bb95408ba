"""What the pictures share: colours, markers and line styles, titles and axes."""

import math
import textwrap
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullFormatter

from accelbench.answers.words import OPTION_WORDS, options_text
from accelbench.schema.record import Row
from accelbench.schema.vocab import Device, Precision

DPI = 130
TITLE_LETTERS, PANEL_LETTERS = 11.0, 11.5  # per inch, of a picture's title and of a panel's
DIGIT_INCH = 0.072  # the width of a digit on an axis
LETTERS_UPRIGHT = 1.8  # as many digits wide is a number that stands upright, with a gap
BATCH_MARGIN = 0.12  # of the axis, on either side of the batch sizes

# Okabe and Ito's colours, which colour-blind readers can tell apart.
COLOURS = {Device.cpu: "#0072B2", Device.gpu: "#009E73", Device.tpu: "#D55E00", Device.xla_cpu: "#CC79A7"}
MARKERS = dict(zip(Precision, "Dsov^P*H", strict=True))
# The columns in which the cells of one line are equal.
LINE_COLUMNS = [
    *("device", "precision", "options", "engine", "data", "pipeline", "num_workers", "augment", "input_shape"),
    *("protocol", "epochs", "threads"),
]
WARNING_COLOUR = "#b3261e"

# What one entry of a legend stands for: device, precision, and the options' text (empty without options).
Setting = tuple[Device, Precision, str]


def setting_of(row: Row) -> Setting:
    """The device, precision and options of a row of `cells.csv`."""
    return Device(str(row["device"])), Precision(str(row["precision"])), options_text(row) or ""


def distinct_settings(shown: Iterable[Setting]) -> list[Setting]:
    """Each setting once, in the vocabulary's order, without options first."""
    known = set(shown)
    return [
        (device, precision, options)
        for device, precision in product(Device, Precision)
        for options in sorted(setting[2] for setting in known if setting[:2] == (device, precision))
    ]


def setting_label(setting: Setting) -> str:
    """The text of a legend's entry."""
    return " ".join(filter(None, setting))


def line_style(options: str) -> Any:
    """Solid without options, else one dash per option; options later in the vocabulary have longer dashes."""
    enabled = [
        OPTION_WORDS.index(name) if name in OPTION_WORDS else len(OPTION_WORDS) for name in options.split(" + ") if name
    ]
    dashes = [2 * index + 1 for index in sorted(enabled)]
    return (0, [length for dash in dashes for length in (dash, 1.5)]) if dashes else "-"


def add_title(figure: Figure, title: str, warning: str) -> None:
    """Writes a picture's title, and below it, in red, a warning about its data (empty for none)."""
    text = "\n".join(wrapped(each, figure.get_figwidth(), TITLE_LETTERS) for each in (title, warning) if each)
    figure.suptitle(text, fontsize=11, color=WARNING_COLOUR if warning else "black")


def wrapped(text: str, inches: float, letters_per_inch: float) -> str:
    """The text in lines that are at most so long. Names, which have no spaces, stay whole."""
    width = int(inches * letters_per_inch)
    return textwrap.fill(text, width, break_on_hyphens=False, break_long_words=False)


def add_panel_title(axes: Axes, title: str, inches: float) -> None:
    """Writes the title of a panel that is so wide, with what stands beside it."""
    axes.set_title(wrapped(title, inches, PANEL_LETTERS), fontsize=9, loc="left")


def add_legend(figure: Figure, handles: Sequence[Any], num_columns: int) -> None:
    """Puts a legend below the panels."""
    figure.legend(handles=handles, loc="outside lower center", ncols=num_columns, fontsize=8, frameon=False)


def batch_axis(axes: Axes, batches: Sequence[int], inches: float, *, upright: bool = False) -> None:
    """A logarithmic x-axis with a tick for each batch size, and a number at each that has room for it.

    Args:
        axes: of the panel.
        batches: at least one, in ascending order.
        inches: of the axis.
        upright: whether the numbers stand upright.
    """
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(_with_room(batches, inches * (1 - 2 * BATCH_MARGIN), upright)))
    axes.xaxis.set_major_formatter("{x:.0f}")
    axes.xaxis.set_minor_locator(FixedLocator(batches))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.margins(x=BATCH_MARGIN)


def _with_room(batches: Sequence[int], inches: float, upright: bool) -> list[int]:
    """The batch sizes whose numbers do not touch the one before; both ends are among them."""
    per_octave = inches / (math.log2(batches[-1] / batches[0]) or 1.0)

    def touch(before: int, after: int) -> bool:
        letters = LETTERS_UPRIGHT if upright else (len(str(before)) + len(str(after))) / 2 + 1
        return per_octave * math.log2(after / before) < letters * DIGIT_INCH

    kept = [batches[0]]
    for batch in batches[1:-1]:
        if not touch(kept[-1], batch) and not touch(batch, batches[-1]):
            kept.append(batch)
    return [*kept, *batches[-1:]] if len(batches) > 1 else kept


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
