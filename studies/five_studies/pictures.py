"""Pictures of single studies, redrawn with our ok cells."""

from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import Any, Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from accelbench.answers.cells import MeasuredCell
from accelbench.answers.words import options_text
from accelbench.report.read import Sweep
from accelbench.schema.cell import Device, Engine, Mode, Precision
from five_studies.comparison import equal_on, one_per_setting, ratio
from five_studies.style import COLOURS, MARKERS, WARNING_COLOUR, finished, log_ticks, sized, tidy

FAMILIES = ("efficientnet", "resnet", "vgg")
MIN_DOTS = 8  # fewer values are easier to read in a table
CURVE_LINES: dict[str, Literal["--", "-"]] = {"training": "--", "test": "-"}
MAX_BATCHES = 6  # batches in a picture
Setting = tuple[Device, Precision]  # device and precision of an entry in a legend
Value = Callable[[MeasuredCell], float | None]


def setting_of(reported: MeasuredCell) -> Setting:
    """The device and precision of a cell."""
    return reported.cell.device, reported.cell.precision


def plain(cells: Iterable[MeasuredCell]) -> list[MeasuredCell]:
    """The ok cells of PyTorch on one device without options, as in the studies; one for each setting."""
    return one_per_setting(each for each in cells if each.is_ok and options_text(each.row) is None)


def distinct_settings(cells: Iterable[MeasuredCell]) -> list[Setting]:
    """The different settings of the cells, in the order of `schema.cell`."""
    known = {setting_of(reported) for reported in cells}
    return [setting for setting in product(Device, Precision) if setting in known]


def _handles(settings: Iterable[Setting], line: str = "-") -> list[Line2D]:
    return [_line(**_style(setting), linestyle=line, label=" ".join(setting)) for setting in settings]


def _line(**look: Any) -> Line2D:
    return Line2D([], [], **look)


def _style(setting: Setting) -> dict[str, Any]:
    return {"color": COLOURS[setting[0]], "marker": MARKERS[setting[1]], "markersize": 5}


def _finished(figure: Figure, title: str, warning: str, handles: Sequence[Any]) -> Figure:
    if any(axes.texts for axes in figure.axes):
        mark = _line(linestyle="none", marker="$!$", color=WARNING_COLOUR, label="in doubt: see its row")
        handles = [*handles, mark]
    return finished(figure, title, warning, handles, max(2, int(figure.get_figwidth() / 1.8)))


def _mark(axes: Axes, x: float, y: float, *, is_doubtful: bool) -> None:
    if is_doubtful:
        axes.annotate("!", (x, y), (5, 2), textcoords="offset points", fontsize=9, color=WARNING_COLOUR)


def has_warnings(reported: MeasuredCell | None) -> bool:
    """Whether a cell's row in the report has warnings."""
    return reported is not None and bool(reported.row["warnings"])


def families(cells: Sequence[MeasuredCell], value: Value | Device, title: str, warning: str) -> Figure | None:
    """Dots for a value of the ok cells: a column for each batch, a line for each network.

    If `value` is a device, the dots are speed-ups over this device. None for fewer than `MIN_DOTS` dots.
    """
    known = []
    for each in plain(cells):
        base = equal_on(value, each, cells) if isinstance(value, Device) else None
        if number := ratio(each, base) if isinstance(value, Device) else value(each):
            known.append((each, number, has_warnings(each) or has_warnings(base)))
    if len(known) < MIN_DOTS:
        return None
    names = sorted({each.cell.model.name for each, _, _ in known}, key=_place)
    batches = sorted({each.cell.batch_size for each, _, _ in known})[:MAX_BATCHES]
    figure = sized(4.2 * len(batches) + 2.0, 0.24 * len(names) + 1.8)
    panels = dict(
        zip(batches, figure.subplots(1, len(batches), squeeze=False, sharex=True, sharey=True)[0], strict=True)
    )
    for each, number, is_doubtful in known:
        if (axes := panels.get(each.cell.batch_size)) is not None:
            line = names.index(each.cell.model.name)
            axes.plot(number, line, **_style(setting_of(each)))
            _mark(axes, number, line, is_doubtful=is_doubtful)
    for batch_size, axes in panels.items():
        axes.set_xscale("log")
        log_ticks(axes.xaxis, 5, "{x:g}")
        axes.set_title(f"batch {batch_size}", fontsize=10)
        tidy(axes)
    panels[batches[0]].set_yticks(range(len(names)), names, fontsize=8)
    panels[batches[0]].set_ylim(len(names) - 0.5, -0.5)
    return _finished(figure, title, warning, _handles(distinct_settings([each for each, _, _ in known]), ""))


def _place(model: str) -> tuple[int, str]:
    """A sort key for the lines: the network's family, then its name."""
    found = (number for number, family in enumerate(FAMILIES) if model.startswith(family))
    return next(found, len(FAMILIES)), model


def curves(sweep: Sweep, title: str, warning: str) -> Figure | None:
    """Accuracy and loss over the epochs, in training and on the test set: a row per network, a line per cell.

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
    handles = _handles(distinct_settings(cells))
    handles += [_line(color="grey", linestyle=style, label=name) for name, style in CURVE_LINES.items()]
    engines = dict.fromkeys(reported.cell.engine for reported in cells)
    handles += [_line(color="grey", marker=_marker(each), label=each) for each in engines if len(engines) > 1]
    return _finished(figure, title, warning, handles)


def _marker(engine: Engine) -> str:
    """The marker of an engine's points on the curves."""
    return "." if engine == Engine.pytorch else "x"


def _epochs(reported: MeasuredCell) -> list[Any]:
    return reported.record.measurement.epochs if reported.record and reported.record.measurement else []


def _curve(axes: Axes, reported: MeasuredCell, what: str, scale: float) -> None:
    for name, style in CURVE_LINES.items():
        found = _epochs(reported) if name == "training" else [epoch.evaluation for epoch in _epochs(reported)]
        values = [getattr(each, what, None) for each in found]
        known = [(number + 1, scale * value) for number, value in enumerate(values) if value is not None]
        if known:
            look = _style(setting_of(reported)) | {"linestyle": style, "marker": _marker(reported.cell.engine)}
            axes.plot(*zip(*known, strict=True), **look)
