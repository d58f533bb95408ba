"""Pictures that single studies had, redrawn with our ok cells; None if there is nothing to show."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from accelbench.answers.words import OPTION_WORDS
from accelbench.presentation import significant
from accelbench.report.pictures.style import (
    COLOURS,
    DPI,
    WARNING_COLOUR,
    Setting,
    add_legend,
    add_title,
    distinct_settings,
    line_style,
    setting_label,
    setting_of,
    tidy,
)
from accelbench.report.read import ReportedCell, Sweep
from accelbench.schema.record import Row
from accelbench.schema.vocab import Device, Mode, Precision
from five_studies.comparison import gain_over, one_per_setting

FAMILIES = ("efficientnet", "resnet", "vgg")
OTHERS = "others"
# The opacity of a device's colour for each precision: the more bits, the stronger.
SHADES = {
    Precision.fp64: 1.0,
    Precision.fp32: 0.85,
    Precision.tf32: 0.7,
    Precision.bf16_mixed: 0.55,
    Precision.fp16_mixed: 0.45,
    Precision.bf16: 0.35,
    Precision.fp16: 0.22,
    Precision.int8: 0.12,
}
# A bar's hatch for each option; several options' hatches are drawn over one another.
HATCHES = dict(zip(OPTION_WORDS, ("//", "..", "\\\\", "--", "||", "oo", "++", "**"), strict=True))
OTHER_HATCH = "xx"  # several devices, another engine
CURVE_MARKERS = (".", "x", "+", "1", "2")  # of a curve with 0, 1, 2, ... options
CURVE_LINES: dict[str, Literal["--", "-"]] = {"training": "--", "test": "-"}
MAX_BATCHES = 6  # of a picture
_DOUBTFUL = Line2D([], [], linestyle="none", marker="$!$", color=WARNING_COLOUR, label="has warnings: see its row")


def family(model: str) -> str:
    """The family of a network, by its name."""
    return next((name for name in FAMILIES if model.startswith(name)), OTHERS)


def has_warnings(reported: ReportedCell | None) -> bool:
    """Whether a cell's numbers have warnings, which its row in the report names."""
    return reported is not None and bool(reported.row["warnings"])


def families(
    cells: Sequence[ReportedCell],
    value: Callable[[ReportedCell], float | None],
    unit: str,
    title: str,
    warning: str,
    is_doubtful: Callable[[ReportedCell], bool] = has_warnings,
) -> Figure | None:
    """Grouped bars of an ok cell's `value`: a column per family of networks, a row per batch, a bar per setting.

    A bar of a cell that `is_doubtful` is marked.
    """
    ok = one_per_setting(reported for reported in cells if reported.is_ok)
    known = {reported.name: number for reported in ok if (number := value(reported)) is not None}
    ok = [reported for reported in ok if reported.name in known]
    if not ok:
        return None
    doubtful = {reported.name for reported in ok if is_doubtful(reported)}
    models = {name: inside for name in (*FAMILIES, OTHERS) if (inside := _models_of_family(ok, name))}
    batches = sorted({reported.cell.batch_size for reported in ok})[:MAX_BATCHES]
    shown = distinct_settings(setting_of(reported.row) for reported in ok)
    num_bars = sum(map(len, models.values())) * len(shown)
    width = min(24.0, max(6.5, 0.34 * num_bars + 1.5))
    figure = Figure(figsize=(width, 2.7 * len(batches) + 1.3), layout="constrained", dpi=DPI)
    grid = figure.subplots(
        len(batches), len(models), squeeze=False, sharey=True, width_ratios=[len(each) for each in models.values()]
    )
    for line, batch_size in zip(grid, batches, strict=True):
        for axes, (name, inside) in zip(line, models.items(), strict=True):
            for each in ok:
                if each.cell.batch_size == batch_size and each.cell.model.name in inside:
                    place = (inside.index(each.cell.model.name), shown.index(setting_of(each.row)), len(shown))
                    _bar(axes, *place, known[each.name], each.row, doubtful=each.name in doubtful)
            axes.set_title(name, fontsize=10)
            axes.set_xticks(range(len(inside)), inside, rotation=30, ha="right")
            axes.set_xlim(-0.5, len(inside) - 0.5)
            axes.margins(y=0.25)
            tidy(axes)
        line[0].set_ylabel(f"batch {batch_size}: {unit}")
    _legend(figure, [*_patches(shown), *([_DOUBTFUL] if doubtful else [])], width)
    add_title(figure, title, warning)
    return figure


def _models_of_family(cells: Sequence[ReportedCell], name: str) -> list[str]:
    models = dict.fromkeys(reported.cell.model.name for reported in cells)
    return [model for model in models if family(model) == name]


def _fill(setting: Setting) -> dict[str, Any]:
    device, precision, options = setting
    hatch = "".join(HATCHES.get(name, OTHER_HATCH) for name in options.split(" + ") if name)
    return {"facecolor": COLOURS[device], "alpha": SHADES[precision], "edgecolor": COLOURS[device], "hatch": hatch}


def _patches(settings: Sequence[Setting]) -> list[Patch]:
    return [Patch(**_fill(setting), label=setting_label(setting)) for setting in settings]


def _bar(axes: Axes, group: int, index: int, num_bars: int, value: float, row: Row, *, doubtful: bool) -> None:
    """The bar at `index` of the `num_bars` of a group, with its value written on it, and a `!` if it is doubtful."""
    width = 0.86 / num_bars
    x = group - 0.43 + width * (index + 0.5)
    axes.bar(x, value, width * 0.92, **_fill(setting_of(row)))
    text, colour = significant(value) + " !" * doubtful, WARNING_COLOUR if doubtful else "black"
    style: dict[str, Any] = {
        "textcoords": "offset points",
        "ha": "center",
        "rotation": 90,
        "fontsize": 7,
        "color": colour,
    }
    axes.annotate(text, (x, value), (0, 2), **style)


def _legend(figure: Figure, handles: Sequence[Any], width: float) -> None:
    add_legend(figure, handles, max(2, int(width / 1.8)))


def curves(sweep: Sweep, title: str, warning: str) -> Figure | None:
    """Accuracy and loss per epoch, in training and on the test set: a row per network, a line per device and seed.

    The marker shows how many options are on. None if no cell was tested after more than one epoch.
    """
    trained = [reported for reported in sweep.cells if reported.is_ok and reported.cell.mode == Mode.train]
    cells = [reported for reported in trained if sum(bool(epoch.evaluation) for epoch in _epochs(reported)) > 1]
    if not cells:
        return None
    models = list(dict.fromkeys(reported.cell.model.name for reported in cells))
    figure = Figure(figsize=(8.5, 2.7 * len(models) + 1.2), layout="constrained", dpi=DPI)
    grid = figure.subplots(len(models), 2, squeeze=False)
    for line, model in zip(grid, models, strict=True):
        for axes, (what, scale) in zip(line, {"accuracy": 100.0, "loss": 1.0}.items(), strict=True):
            for reported in cells:
                if reported.cell.model.name == model:
                    _curve(axes, reported, what, scale)
            axes.set_title(f"{model}, {what}", fontsize=10)
            axes.set_xlabel("epoch")
            axes.set_ylabel("accuracy (%)" if what == "accuracy" else "loss")
            axes.xaxis.get_major_locator().set_params(integer=True)
            tidy(axes)
    handles = [
        Line2D([], [], **_curve_style(setting), label=setting_label(setting))
        for setting in distinct_settings(setting_of(reported.row) for reported in cells)
    ]
    handles += [Line2D([], [], color="grey", linestyle=style, label=name) for name, style in CURVE_LINES.items()]
    _legend(figure, handles, 8.5)
    add_title(figure, title, warning)
    return figure


def _epochs(reported: ReportedCell) -> list[Any]:
    return reported.record.measurement.epochs if reported.record and reported.record.measurement else []


def _line_alpha(precision: Precision) -> float:
    return max(0.5, SHADES[precision])


def _curve_style(setting: Setting) -> dict[str, Any]:
    device, precision, options = setting
    marker = CURVE_MARKERS[min(len(options.split(" + ")), len(CURVE_MARKERS) - 1) if options else 0]
    return {"color": COLOURS[device], "alpha": _line_alpha(precision), "marker": marker, "linewidth": 1.3}


def _curve(axes: Axes, reported: ReportedCell, what: str, scale: float) -> None:
    for name, style in CURVE_LINES.items():
        found = _epochs(reported) if name == "training" else [epoch.evaluation for epoch in _epochs(reported)]
        values = [getattr(each, what, None) for each in found]
        known = [(number + 1, scale * value) for number, value in enumerate(values) if value is not None]
        if known:
            axes.plot(*zip(*known, strict=True), linestyle=style, **_curve_style(setting_of(reported.row)))


def dashboard(cells: Sequence[ReportedCell], title: str, warning: str) -> Figure | None:
    """Study 003's panels for one network, by batch: latency (a thin line to p99), throughput, speed-up over the CPU."""
    inferring = one_per_setting(reported for reported in cells if reported.is_ok and reported.cell.mode == Mode.infer)
    ok = [reported for reported in inferring if reported.row["latency_p50_ms"] is not None]
    if not ok:
        return None
    batches = sorted({reported.cell.batch_size for reported in ok})
    settings = distinct_settings(setting_of(reported.row) for reported in ok)
    figure = Figure(figsize=(12.0, 3.9), layout="constrained", dpi=DPI)
    latency, throughput, gains = figure.subplots(1, 3)
    for setting in settings:
        inside = sorted((each for each in ok if setting_of(each.row) == setting), key=lambda each: each.cell.batch_size)
        _batch_line(latency, inside, lambda each: each.number("latency_p50_ms"), setting)
        for each in inside:
            if (p99 := each.number("latency_p99_ms")) is not None:
                ends = (each.number("latency_p50_ms") or 0.0, p99)
                latency.vlines(each.cell.batch_size, *ends, color=COLOURS[setting[0]], linewidth=1)
        _batch_line(throughput, inside, lambda each: each.number("samples_per_s"), setting)
        _batch_line(gains, inside, lambda each: gain_over(Device.cpu, each, cells, "samples_per_s"), setting)
    for axes, what in (
        (latency, "latency p50 to p99 (ms)"),
        (throughput, "samples/s"),
        (gains, "speed-up over the CPU"),
    ):
        axes.set_xscale("log", base=2)
        axes.set_xticks(batches, list(map(str, batches)))
        axes.set_xlabel("batch size")
        axes.set_title(what, fontsize=10)
        axes.set_ylim(0, 1.15 * axes.get_ylim()[1])
        tidy(axes)
    if not gains.lines:
        gains.remove()
    marked = [_DOUBTFUL] if any(map(has_warnings, ok)) else []
    handles = [Line2D([], [], **_batch_style(setting), label=setting_label(setting)) for setting in settings]
    _legend(figure, [*handles, *marked], 12.0)
    add_title(figure, title, warning)
    return figure


def _batch_style(setting: Setting) -> dict[str, Any]:
    device, precision, options = setting
    style = line_style(options)
    return {"color": COLOURS[device], "alpha": _line_alpha(precision), "marker": "o", "linestyle": style}


def _batch_line(
    axes: Axes, cells: Sequence[ReportedCell], value: Callable[[ReportedCell], float | None], setting: Setting
) -> None:
    """A line through the known values, and a `!` at those of cells with warnings."""
    points = [(each, known) for each in cells if (known := value(each)) is not None]
    if points:
        axes.plot([each.cell.batch_size for each, _ in points], [y for _, y in points], **_batch_style(setting))
    for each, y in points:
        if has_warnings(each):
            place = (each.cell.batch_size, y)
            axes.annotate("!", place, (5, 2), textcoords="offset points", fontsize=9, color=WARNING_COLOUR)
