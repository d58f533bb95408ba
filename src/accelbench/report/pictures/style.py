"""The report's pictures, from ok rows alone. Each is None where there is nothing to show."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, LogLocator, NullFormatter, NullLocator

from accelbench.presentation import exact, seconds
from accelbench.report.tables.options import NAMES, named
from accelbench.report.tables.study_times import TITLES, Comparison
from accelbench.schema.record import Row
from accelbench.schema.vocab import Device, Engine, Mode, Precision

DPI = 130

DEVICES = list(Device)
# Okabe and Ito's colours, told apart by colour-blind readers.
COLOURS = {Device.cpu: "#0072B2", Device.gpu: "#009E73", Device.tpu: "#D55E00", Device.xla_cpu: "#CC79A7"}
MARKERS = dict(zip(Precision, "Dsov^P*", strict=True))
# What a line stands for: it joins no cells of other epochs, threads or protocol.
LINE = [
    *("device", "precision", "options", "engine", "data", "pipeline", "num_workers", "augment", "input_shape"),
    *("protocol", "epochs", "threads"),
]
WARNING_COLOUR = "#b3261e"

Place = tuple[Device, Precision, str]  # what a colour and a style stand for; the options, empty where none is on


def place_of(row: Row) -> Place:
    """The device, precision and options of a row."""
    return Device(str(row["device"])), Precision(str(row["precision"])), named(row) or ""


def places(shown: Iterable[Place]) -> list[Place]:
    """Each once, in the vocabulary's order, plain ones first."""
    there = set(shown)
    return [
        (device, precision, options)
        for device, precision in product(Device, Precision)
        for options in sorted(each[2] for each in there if each[:2] == (device, precision))
    ]


def place_label(place: Place) -> str:
    """A place in a legend."""
    return " ".join(filter(None, place))


def line_style(options: str) -> Any:
    """Whole where no option is on, else a dash for each: the later in the vocabulary, the longer."""
    on = [NAMES.index(name) if name in NAMES else len(NAMES) for name in options.split(" + ") if name]
    dashes = [2 * index + 1 for index in sorted(on)]
    return (0, [length for dash in dashes for length in (dash, 1.5)]) if dashes else "-"


def throughput(rows: Sequence[Row], title: str, warning: str) -> Figure | None:
    """Samples/s against batch size: a column per model, a row per mode, a line per device and precision."""

    def draw(axes: Axes, line: pd.DataFrame, place: Place) -> None:
        rate = line["samples_per_s"].astype(float)
        low = rate - line["samples_per_s_low"].astype(float)
        high = line["samples_per_s_high"].astype(float) - rate
        axes.errorbar(
            line["batch_size"].astype(int),
            rate,
            yerr=[low, high],
            markersize=5,
            linewidth=1.3,
            capsize=3,
            **_style(place),
        )

    return _panels(_known(rows, "samples_per_s"), (title, warning), "samples/s", draw)


def latency(rows: Sequence[Row], title: str, warning: str) -> Figure | None:
    """Latency p50 against batch size, in the same panels, with bars up to p90 (thick) and p99 (thin)."""
    frame = _known(rows, "latency_p50_ms")
    shown = _there(frame)

    def draw(axes: Axes, line: pd.DataFrame, place: Place) -> None:
        # Side by side, so that the bars of one batch size do not hide one another.
        shift = 2 ** (0.12 * (shown.index(place) - (len(shown) - 1) / 2))
        batches = line["batch_size"].astype(float) * shift
        p50, p90, p99 = (line[f"latency_p{percentile}_ms"].astype(float) for percentile in (50, 90, 99))
        axes.vlines(batches, p50, p99, color=COLOURS[place[0]], linewidth=1)
        axes.vlines(batches, p50, p90, color=COLOURS[place[0]], linewidth=3)
        axes.plot(batches, p50, linewidth=1, markersize=4, **_style(place))

    return _panels(frame, (title, warning), "latency (ms)", draw)


def times(comparisons: Sequence[Comparison], title: str, warning: str) -> Figure | None:
    """Training and testing time per network and device, ours beside the published, values on the bars."""
    bars = list(_bars(comparisons))
    if not bars:
        return None
    modes = [mode for mode in Mode if any(bar.mode == mode for bar in bars)]
    models = list(dict.fromkeys(bar.model for bar in bars))
    width = max(6.5, 2.4 * len(models))
    figure = Figure(figsize=(width, 3.4 * len(modes)), layout="constrained", dpi=DPI)
    for axes, mode in zip(figure.subplots(len(modes), squeeze=False)[:, 0], modes, strict=True):
        _draw_bars(axes, [bar for bar in bars if bar.mode == mode], models)
        axes.set_title(TITLES[mode], fontsize=10, loc="left")
        axes.set_ylabel("seconds")
    kinds = sorted({bar.kind for bar in bars})
    handles = [Patch(**_fill(kind), label=_kind_label(kind)) for kind in kinds]
    figure.legend(handles=handles, loc="outside lower center", ncols=int(width / 1.6), fontsize=8, frameon=False)
    head(figure, (f"{title} (~ marks an estimated time)", warning))
    return figure


Kind = tuple[bool, int]  # whether published, the device's place in the vocabulary: ours come first


@dataclass(frozen=True, kw_only=True)
class _Bar:
    mode: Mode
    model: str
    kind: Kind
    time_s: float
    text: str


def _bars(comparisons: Sequence[Comparison]) -> Iterator[_Bar]:
    for each in comparisons:
        place = DEVICES.index(each.device)
        if each.time_s is not None:
            text = seconds(each.time_s, estimated=each.estimated)
            yield _Bar(mode=each.mode, model=each.model, kind=(False, place), time_s=each.time_s, text=text)
        if each.published is not None:
            time_s = each.published.value
            yield _Bar(mode=each.mode, model=each.model, kind=(True, place), time_s=time_s, text=exact(time_s))


def _fill(kind: Kind) -> dict[str, Any]:
    is_published, place = kind
    colour = COLOURS[DEVICES[place]]
    return {
        "facecolor": "white" if is_published else colour,
        "edgecolor": colour,
        "hatch": "////" if is_published else None,
    }


def _kind_label(kind: Kind) -> str:
    is_published, place = kind
    return f"{DEVICES[place]}, {'published' if is_published else 'ours'}"


def _draw_bars(axes: Axes, bars: Sequence[_Bar], models: Sequence[str]) -> None:
    """A group of bars per model; a place is left empty where a number is unknown."""
    kinds = sorted({bar.kind for bar in bars})
    width = 0.86 / len(kinds)
    for bar in bars:
        x = models.index(bar.model) - 0.43 + width * (kinds.index(bar.kind) + 0.5)
        axes.bar(x, bar.time_s, width * 0.9, **_fill(bar.kind))
        place = (x, bar.time_s)
        axes.annotate(
            bar.text, place, (0, 3), textcoords="offset points", ha="center", va="bottom", rotation=90, fontsize=8
        )
    low, high = min(bar.time_s for bar in bars), max(bar.time_s for bar in bars)
    axes.set_yscale("log")
    axes.set_ylim(low / 3, high * 3 * (high / low) ** 0.3)  # the written values need room above the tallest bar
    axes.yaxis.set_major_formatter("{x:,.9g}")
    axes.set_xticks(range(len(models)), models)
    axes.set_xlim(-0.5, len(models) - 0.5)
    tidy(axes)


def _known(rows: Sequence[Row], column: str) -> pd.DataFrame:
    known = [row | {"options": named(row) or ""} for row in rows if row[column] is not None]
    return pd.DataFrame(known, dtype=object)


Draw = Callable[[Axes, pd.DataFrame, Place], None]


def _panels(frame: pd.DataFrame, lines: tuple[str, str], unit: str, draw: Draw) -> Figure | None:
    """Small multiples over batch size, both axes logarithmic, with one legend below."""
    if frame.empty:
        return None
    models = list(dict.fromkeys(frame["model"]))
    modes = [mode for mode in Mode if (frame["mode"] == mode).any()]
    width = max(6.5, 3.0 * len(models) + 0.6)
    figure = Figure(figsize=(width, 2.5 * len(modes) + 1.1), layout="constrained", dpi=DPI)
    grid = figure.subplots(len(modes), len(models), squeeze=False, sharex=True)
    for row, mode in zip(grid, modes, strict=True):
        for axes, model in zip(row, models, strict=True):
            panel = frame[(frame["mode"] == mode) & (frame["model"] == model)]
            for (device, precision, options, *_), line in panel.groupby(LINE, sort=False, dropna=False):
                ordered = line.sort_values(["batch_size", "seed", "repeat"])
                draw(axes, ordered, (Device(device), Precision(precision), options))
            _label(axes, panel, sorted(set(frame["batch_size"])))
            axes.set_title(f"{model}, {mode}", fontsize=10)
        row[0].set_ylabel(unit)
    for axes in grid[-1]:
        axes.set_xlabel("batch size")
    handles = [Line2D([], [], label=place_label(place), **_style(place)) for place in _there(frame)]
    figure.legend(
        handles=handles, loc="outside lower center", ncols=max(3, int(width / 1.6)), fontsize=8, frameon=False
    )
    head(figure, lines)
    return figure


def _there(frame: pd.DataFrame) -> list[Place]:
    return [] if frame.empty else places(zip(frame["device"], frame["precision"], frame["options"], strict=True))


def _style(place: Place) -> dict[str, Any]:
    """A colour per device, a marker per precision, filled where the weights are of it, and a line per options.

    Another engine's markers are half filled, since a line needs two batches.
    """
    device, precision, options = place
    is_mixed = precision in (Precision.fp16_mixed, Precision.bf16_mixed)
    colour = COLOURS[device]
    return {
        "color": colour,
        "marker": MARKERS[precision],
        "markerfacecolor": "white" if is_mixed else colour,
        "fillstyle": "left" if Engine.keras in options else "full",
        "linestyle": line_style(options),
    }


def head(figure: Figure, lines: tuple[str, str]) -> None:
    """Writes a picture's title, and below it, in red, what must be known of its data."""
    title, warning = lines
    text = f"{title}\n{warning}" if warning else title
    figure.suptitle(text, fontsize=11, color=WARNING_COLOUR if warning else "black")


def _label(axes: Axes, panel: pd.DataFrame, batches: Sequence[int]) -> None:
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(batches))
    axes.xaxis.set_major_formatter("{x:.0f}")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.tick_params(axis="x", labelrotation=90 if len(batches) > 6 else 0)
    axes.margins(x=0.12)
    if panel.empty:
        axes.text(0.5, 0.5, "no ok cell", transform=axes.transAxes, ha="center", color="grey")
        axes.set_yticks([])
        return
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    axes.set_ylim(low / 1.5, high * 1.5)  # room for two labelled ticks at least, however alike the values
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=12))
    axes.yaxis.set_major_formatter("{x:,.9g}")
    tidy(axes)


def tidy(axes: Axes) -> None:
    """Small ticks, a faint grid, no box."""
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.tick_params(labelsize=8)
    axes.grid(axis="y", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
