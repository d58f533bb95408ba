"""Pictures that single studies had, redrawn with our ok cells; None if there is nothing to show."""

from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import Any, Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from accelbench.answers.cells import MeasuredCell
from accelbench.answers.words import options_text
from accelbench.presentation import significant
from accelbench.report.pictures.style import COLOURS, WARNING_COLOUR, finished, sized, tidy
from accelbench.report.read import Sweep
from accelbench.schema.vocab import Device, Engine, Mode, Precision
from five_studies.comparison import equal_on, one_per_setting, ratio

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
CURVE_LINES: dict[str, Literal["--", "-"]] = {"training": "--", "test": "-"}
MAX_BATCHES = 6  # of a picture
_DOUBTFUL = Line2D([], [], linestyle="none", marker="$!$", color=WARNING_COLOUR, label="has warnings: see its row")
Setting = tuple[Device, Precision]  # what one entry of a legend stands for
Value = Callable[[MeasuredCell], float | None]


def setting_of(reported: MeasuredCell) -> Setting:
    """The device and precision of a cell."""
    return reported.cell.device, reported.cell.precision


def plain(cells: Iterable[MeasuredCell]) -> list[MeasuredCell]:
    """The ok cells of one device and PyTorch without options, as the studies had them, one of each setting."""
    return one_per_setting(each for each in cells if each.is_ok and options_text(each.row) is None)


def distinct_settings(cells: Iterable[MeasuredCell]) -> list[Setting]:
    """The setting of each cell once, in the vocabulary's order."""
    known = {setting_of(reported) for reported in cells}
    return [setting for setting in product(Device, Precision) if setting in known]


def _handles(kind: Any, look: Callable[[Setting], dict[str, Any]], settings: Iterable[Setting]) -> list[Any]:
    return [kind(**look(setting), label=" ".join(setting)) for setting in settings]


def _finished(figure: Figure, title: str, warning: str, handles: Sequence[Any]) -> Figure:
    return finished(figure, title, warning, handles, max(2, int(figure.get_figwidth() / 1.8)))


def family(model: str) -> str:
    """The family of a network, by its name."""
    return next((name for name in FAMILIES if model.startswith(name)), OTHERS)


def has_warnings(reported: MeasuredCell | None) -> bool:
    """Whether a cell's numbers have warnings, which its row in the report names."""
    return reported is not None and bool(reported.row["warnings"])


def families(
    cells: Sequence[MeasuredCell],
    value: Value,
    unit: str,
    title: str,
    warning: str,
    is_doubtful: Callable[[MeasuredCell], bool] = has_warnings,
) -> Figure | None:
    """Grouped bars of an ok cell's `value`: a column per family of networks, a row per batch, a bar per setting.

    A bar of a cell that `is_doubtful` is marked.
    """
    known = [(reported, number) for reported in plain(cells) if (number := value(reported)) is not None]
    if not known:
        return None
    ok = [reported for reported, _ in known]
    names = dict.fromkeys(reported.cell.model.name for reported in ok)
    by_family = {each: [name for name in names if family(name) == each] for each in (*FAMILIES, OTHERS)}
    models = {name: inside for name, inside in by_family.items() if inside}
    batches = sorted({reported.cell.batch_size for reported in ok})[:MAX_BATCHES]
    shown = distinct_settings(ok)
    width = min(24.0, max(6.5, 0.34 * len(names) * len(shown) + 1.5))
    figure = sized(width, 2.7 * len(batches) + 1.3)
    ratios = [len(each) for each in models.values()]
    grid = figure.subplots(len(batches), len(models), squeeze=False, sharey=True, width_ratios=ratios)
    for line, batch_size in zip(grid, batches, strict=True):
        for axes, (name, inside) in zip(line, models.items(), strict=True):
            for each, number in known:
                if each.cell.batch_size == batch_size and each.cell.model.name in inside:
                    place = (inside.index(each.cell.model.name), shown.index(setting_of(each)), len(shown))
                    _bar(axes, *place, number, setting_of(each), doubtful=is_doubtful(each))
            axes.set_title(name, fontsize=10)
            axes.set_xticks(range(len(inside)), inside, rotation=30, ha="right")
            axes.set_xlim(-0.5, len(inside) - 0.5)
            axes.margins(y=0.25)
            tidy(axes)
        line[0].set_ylabel(f"batch {batch_size}: {unit}")
    marked = [_DOUBTFUL] if any(map(is_doubtful, ok)) else []
    return _finished(figure, title, warning, [*_handles(Patch, _fill, shown), *marked])


def _fill(setting: Setting) -> dict[str, Any]:
    device, precision = setting
    return {"facecolor": COLOURS[device], "alpha": SHADES[precision], "edgecolor": COLOURS[device]}


def _bar(axes: Axes, group: int, index: int, num_bars: int, value: float, setting: Setting, *, doubtful: bool) -> None:
    width = 0.86 / num_bars
    x = group - 0.43 + width * (index + 0.5)
    axes.bar(x, value, width * 0.92, **_fill(setting))
    written: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "rotation": 90, "fontsize": 7}
    colour = WARNING_COLOUR if doubtful else "black"
    axes.annotate(significant(value) + " !" * doubtful, (x, value), (0, 2), color=colour, **written)


def curves(sweep: Sweep, title: str, warning: str) -> Figure | None:
    """Accuracy and loss per epoch, in training and on the test set: a row per network, a line per cell.

    None if no cell was tested after more than one epoch.
    """
    trained = [each for each in sweep.cells if each.is_ok and each.cell.mode == Mode.train]
    cells = [reported for reported in trained if sum(bool(epoch.evaluation) for epoch in _epochs(reported)) > 1]
    if not cells:
        return None
    models = list(dict.fromkeys(reported.cell.model.name for reported in cells))
    figure = sized(8.5, 2.7 * len(models) + 1.2)
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
    handles = _handles(_line, _line_style, distinct_settings(cells))
    handles += [_line(color="grey", linestyle=style, label=name) for name, style in CURVE_LINES.items()]
    engines = dict.fromkeys(reported.cell.engine for reported in cells)
    handles += [_line(color="grey", marker=_marker(each), label=each) for each in engines if len(engines) > 1]
    return _finished(figure, title, warning, handles)


def _marker(engine: Engine) -> str:
    """Of an engine's points on the curves."""
    return "." if engine == Engine.lightning else "x"


def _line(**look: Any) -> Line2D:
    return Line2D([], [], **look)


def _epochs(reported: MeasuredCell) -> list[Any]:
    return reported.record.measurement.epochs if reported.record and reported.record.measurement else []


def _line_style(setting: Setting) -> dict[str, Any]:
    device, precision = setting
    return {"color": COLOURS[device], "alpha": max(0.5, SHADES[precision]), "marker": "."}


def _curve(axes: Axes, reported: MeasuredCell, what: str, scale: float) -> None:
    for name, style in CURVE_LINES.items():
        found = _epochs(reported) if name == "training" else [epoch.evaluation for epoch in _epochs(reported)]
        values = [getattr(each, what, None) for each in found]
        known = [(number + 1, scale * value) for number, value in enumerate(values) if value is not None]
        if known:
            look = _line_style(setting_of(reported)) | {"linestyle": style, "marker": _marker(reported.cell.engine)}
            axes.plot(*zip(*known, strict=True), **look)


def dashboard(cells: Sequence[MeasuredCell], title: str, warning: str) -> Figure | None:
    """Study 003's panels for one network, by batch: latency with its interval, throughput, speed-up over the CPU."""
    ok = [each for each in plain(cells) if each.cell.mode == Mode.infer and each.number("latency_p50_ms") is not None]
    if not ok:
        return None
    batches = sorted({reported.cell.batch_size for reported in ok})
    values: dict[str, Value] = {
        "latency: median, 95 % interval (ms)": lambda each: each.number("latency_p50_ms"),
        "samples/s": lambda each: each.number("samples_per_s"),
        "speed-up over the CPU": lambda each: ratio(each, equal_on(Device.cpu, each, cells)),
    }
    figure = sized(12.0, 3.9)
    panels = figure.subplots(1, 3)
    settings = distinct_settings(ok)
    for setting in settings:
        inside = sorted((each for each in ok if setting_of(each) == setting), key=lambda each: each.cell.batch_size)
        for axes, value in zip(panels, values.values(), strict=True):
            _batch_line(axes, inside, value, setting)
        for each in inside:
            low, high = (each.number(f"latency_p50_ms_{end}") for end in ("low", "high"))
            if low is not None and high is not None:
                panels[0].vlines(each.cell.batch_size, low, high, color=COLOURS[setting[0]], linewidth=1)
    for axes, what in zip(panels, values, strict=True):
        axes.set_xscale("log", base=2)
        axes.set_xticks(batches, list(map(str, batches)))
        axes.set_xlabel("batch size")
        axes.set_title(what, fontsize=10)
        axes.set_ylim(0, 1.15 * axes.get_ylim()[1])
        tidy(axes)
    if not panels[2].lines:
        panels[2].remove()
    marked = [_DOUBTFUL] if any(map(has_warnings, ok)) else []
    return _finished(figure, title, warning, [*_handles(_line, _line_style, settings), *marked])


def _batch_line(axes: Axes, cells: Sequence[MeasuredCell], value: Value, setting: Setting) -> None:
    """A line through the known values, and a `!` at those of cells with warnings."""
    points = [(each, known) for each in cells if (known := value(each)) is not None]
    if points:
        axes.plot([each.cell.batch_size for each, _ in points], [y for _, y in points], **_line_style(setting))
    for each, y in points:
        if has_warnings(each):
            place = (each.cell.batch_size, y)
            axes.annotate("!", place, (5, 2), textcoords="offset points", fontsize=9, color=WARNING_COLOUR)
