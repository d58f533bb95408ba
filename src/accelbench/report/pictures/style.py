"""What the pictures share: colours, markers and line styles, titles and axes."""

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullFormatter, NullLocator

from accelbench.report.tables.options import NAMES, options_text
from accelbench.schema.record import Row
from accelbench.schema.vocab import Device, Precision

DPI = 130

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
    enabled = [NAMES.index(name) if name in NAMES else len(NAMES) for name in options.split(" + ") if name]
    dashes = [2 * index + 1 for index in sorted(enabled)]
    return (0, [length for dash in dashes for length in (dash, 1.5)]) if dashes else "-"


def add_title(figure: Figure, title: str, warning: str) -> None:
    """Writes a picture's title, and below it, in red, a warning about its data (empty for none)."""
    text = f"{title}\n{warning}" if warning else title
    figure.suptitle(text, fontsize=11, color=WARNING_COLOUR if warning else "black")


def add_legend(figure: Figure, handles: Sequence[Any], num_columns: int) -> None:
    """Puts a legend below the panels."""
    figure.legend(handles=handles, loc="outside lower center", ncols=num_columns, fontsize=8, frameon=False)


def batch_axis(axes: Axes, batches: Sequence[int]) -> None:
    """A logarithmic x-axis with a tick for each batch size."""
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(batches))
    axes.xaxis.set_major_formatter("{x:.0f}")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.margins(x=0.12)


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
