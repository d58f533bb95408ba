"""The pictures that single studies had, better drawn; from ok cells alone, None where there is nothing to show."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from accelbench.presentation import significant
from accelbench.report.pictures.style import COLOURS, DPI, Place, head, line_style, place_label, place_of, places, tidy
from accelbench.report.read import ReportedCell, Sweep
from accelbench.report.tables.options import NAMES
from accelbench.report.tables.study_times import gain_over_cpu, one_of_each
from accelbench.schema.record import Row
from accelbench.schema.vocab import Device, Mode, Precision

FAMILIES = ("efficientnet", "resnet", "vgg")
OTHERS = "others"
# A precision's shade on its device's colour: the more bits, the fuller.
SHADES = {
    Precision.fp64: 1.0,
    Precision.fp32: 0.85,
    Precision.tf32: 0.7,
    Precision.bf16_mixed: 0.55,
    Precision.fp16_mixed: 0.45,
    Precision.bf16: 0.35,
    Precision.fp16: 0.22,
}
# Options' hatches on their bars, one upon another; and markers of a curve with none, one, ... of them on.
HATCHES = dict(zip(NAMES, ("//", "..", "\\\\", "--"), strict=True))
OTHER_HATCH = "xx"  # several devices, another engine
CURVE_MARKERS = (".", "x", "+", "1", "2")
MAX_BATCHES = 6  # of a picture


def family(model: str) -> str:
    """The family of a network, by its name."""
    return next((name for name in FAMILIES if model.startswith(name)), OTHERS)


def families(
    cells: Sequence[ReportedCell], value: Callable[[ReportedCell], float | None], unit: str, head_lines: tuple[str, str]
) -> Figure | None:
    """Grouped bars of `value`: a column per family of networks, a row per batch, a bar per place."""
    ok = one_of_each(planned for planned in cells if planned.is_ok)
    known = [(planned.row, number) for planned in ok if (number := value(planned)) is not None]
    if not known:
        return None
    models = {name: _of_family(known, name) for name in (*FAMILIES, OTHERS)}
    models = {name: inside for name, inside in models.items() if inside}
    batches = sorted({int(row["batch_size"] or 0) for row, _ in known})[:MAX_BATCHES]
    shown = places(place_of(row) for row, _ in known)
    num_bars = sum(map(len, models.values())) * len(shown)
    width = min(24.0, max(6.5, 0.34 * num_bars + 1.5))
    figure = Figure(figsize=(width, 2.7 * len(batches) + 1.3), layout="constrained", dpi=DPI)
    grid = figure.subplots(
        len(batches), len(models), squeeze=False, sharey=True, width_ratios=[len(each) for each in models.values()]
    )
    for line, batch_size in zip(grid, batches, strict=True):
        for axes, (name, inside) in zip(line, models.items(), strict=True):
            for row, number in known:
                if row["batch_size"] == batch_size and row["model"] in inside:
                    _bar(axes, inside.index(str(row["model"])), shown.index(place_of(row)), len(shown), number, row)
            axes.set_title(name, fontsize=10)
            axes.set_xticks(range(len(inside)), inside, rotation=30, ha="right")
            axes.set_xlim(-0.5, len(inside) - 0.5)
            axes.margins(y=0.25)
            tidy(axes)
        line[0].set_ylabel(f"batch {batch_size}: {unit}")
    _legend(figure, [Patch(**_fill(place), label=place_label(place)) for place in shown], width)
    head(figure, head_lines)
    return figure


def _of_family(known: Sequence[tuple[Row, float]], name: str) -> list[str]:
    return list(dict.fromkeys(str(row["model"]) for row, _ in known if family(str(row["model"])) == name))


def _fill(place: Place) -> dict[str, Any]:
    device, precision, options = place
    hatch = "".join(HATCHES.get(name, OTHER_HATCH) for name in options.split(" + ") if name)
    return {"facecolor": COLOURS[device], "alpha": SHADES[precision], "edgecolor": COLOURS[device], "hatch": hatch}


def _bar(axes: Axes, group: int, place: int, num_places: int, value: float, row: Row) -> None:
    width = 0.86 / num_places
    x = group - 0.43 + width * (place + 0.5)
    axes.bar(x, value, width * 0.92, **_fill(place_of(row)))
    axes.annotate(
        significant(value), (x, value), (0, 2), textcoords="offset points", ha="center", rotation=90, fontsize=7
    )


def _legend(figure: Figure, handles: Sequence[Any], width: float) -> None:
    figure.legend(
        handles=handles, loc="outside lower center", ncols=max(2, int(width / 1.8)), fontsize=8, frameon=False
    )


def curves(sweep: Sweep, head_lines: tuple[str, str]) -> Figure | None:
    """Accuracy and loss per epoch, in training and on the test set: a row per network, a line per device and seed.

    Options are told by a curve's marker.

    None where no cell was tested after more than one epoch.
    """
    cells = [
        planned
        for planned in sweep.cells
        if planned.is_ok and planned.cell.mode == Mode.train and len([e for e in _epochs(planned) if e.evaluation]) > 1
    ]
    if not cells:
        return None
    models = list(dict.fromkeys(planned.cell.model.name for planned in cells))
    figure = Figure(figsize=(8.5, 2.7 * len(models) + 1.2), layout="constrained", dpi=DPI)
    grid = figure.subplots(len(models), 2, squeeze=False)
    for line, model in zip(grid, models, strict=True):
        for axes, (what, scale) in zip(line, {"accuracy": 100.0, "loss": 1.0}.items(), strict=True):
            for planned in cells:
                if planned.cell.model.name == model:
                    _curve(axes, planned, what, scale)
            axes.set_title(f"{model}, {what}", fontsize=10)
            axes.set_xlabel("epoch")
            axes.set_ylabel("accuracy (%)" if what == "accuracy" else "loss")
            axes.xaxis.get_major_locator().set_params(integer=True)
            tidy(axes)
    handles = [
        Line2D([], [], **_curve_style(place), label=place_label(place))
        for place in places(place_of(planned.row) for planned in cells)
    ]
    handles += [Line2D([], [], color="grey", linestyle=style, label=name) for name, style in STYLES.items()]
    _legend(figure, handles, 8.5)
    head(figure, head_lines)
    return figure


STYLES: dict[str, Literal["--", "-"]] = {"training": "--", "test": "-"}


def _epochs(planned: ReportedCell) -> list[Any]:
    return planned.record.measurement.epochs if planned.record and planned.record.measurement else []


def _line_alpha(precision: Precision) -> float:
    return max(0.5, SHADES[precision])


def _curve_style(place: Place) -> dict[str, Any]:
    device, precision, options = place
    marker = CURVE_MARKERS[min(len(options.split(" + ")), len(CURVE_MARKERS) - 1) if options else 0]
    return {"color": COLOURS[device], "alpha": _line_alpha(precision), "marker": marker, "linewidth": 1.3}


def _curve(axes: Axes, planned: ReportedCell, what: str, scale: float) -> None:
    for name, style in STYLES.items():
        found = _epochs(planned) if name == "training" else [epoch.evaluation for epoch in _epochs(planned)]
        values = [getattr(each, what, None) for each in found]
        known = [(number + 1, scale * value) for number, value in enumerate(values) if value is not None]
        if known:
            axes.plot(*zip(*known, strict=True), linestyle=style, **_curve_style(place_of(planned.row)))


def dashboard(cells: Sequence[ReportedCell], head_lines: tuple[str, str]) -> Figure | None:
    """Study 003's four panels for one network: latency as boxes and as a line, throughput, speed-up over the CPU."""
    inferring = one_of_each(planned for planned in cells if planned.is_ok and planned.cell.mode == Mode.infer)
    ok = [planned for planned in inferring if planned.row["latency_p50_ms"] is not None]
    if not ok:
        return None
    batches = sorted({planned.cell.batch_size for planned in ok})
    shown_places = places(place_of(planned.row) for planned in ok)
    width = max(9.0, 0.4 * len(batches) * len(shown_places) + 3)
    figure = Figure(figsize=(width, 7.4), layout="constrained", dpi=DPI)
    (boxes, bars), (lines, gains) = figure.subplots(2, 2)
    for index, place in enumerate(shown_places):
        mine = {planned.cell.batch_size: planned for planned in ok if place_of(planned.row) == place}
        _boxes(boxes, [mine.get(batch) for batch in batches], index, len(shown_places), place)
        for group, batch in enumerate(batches):
            if batch in mine and (rate := mine[batch].number("samples_per_s")) is not None:
                _bar(bars, group, index, len(shown_places), rate, mine[batch].row)
        shown = [batch for batch in batches if batch in mine]
        style: dict[str, Any] = {"color": COLOURS[place[0]], "alpha": _line_alpha(place[1]), "marker": "o"}
        style["linestyle"] = line_style(place[2])
        lines.plot(shown, [mine[batch].number("latency_p50_ms") or 0.0 for batch in shown], **style)
        if place[0] != Device.cpu:
            found = [
                (batch, 1 / slower)
                for batch in shown
                if (slower := gain_over_cpu(mine[batch], cells, "latency_p50_ms")) is not None
            ]
            if found:
                gains.plot(*zip(*found, strict=True), **style)
    _finish(boxes, "Latency: quartiles, whiskers p5 to p95", "ms", batches)
    _finish(bars, "Throughput", "samples/s", batches)
    bars.set_ylim(0, 1.15 * bars.get_ylim()[1])  # room for what is written on the bars
    for axes, title, unit in (
        (lines, "Latency p50 against batch", "ms"),
        (gains, "Speed-up over the CPU, latency p50", "x"),
    ):
        axes.set_title(title, fontsize=10)
        axes.set_xlabel("batch size")
        axes.set_ylabel(unit)
        axes.set_xscale("log", base=2)
        axes.set_xticks(batches, list(map(str, batches)))
        tidy(axes)
    if not gains.lines:
        gains.text(0.5, 0.5, "no other device was measured", transform=gains.transAxes, ha="center", color="grey")
        gains.set_yticks([])
    else:
        gains.axhline(1, color="grey", linewidth=0.8)
        gains.set_ylim(bottom=0)
    lines.set_ylim(bottom=0)
    _legend(figure, [Patch(**_fill(place), label=place_label(place)) for place in shown_places], width)
    head(figure, head_lines)
    return figure


def _boxes(axes: Axes, cells: Sequence[ReportedCell | None], index: int, num: int, place: Place) -> None:
    width = 0.86 / num
    for group, planned in enumerate(cells):
        if planned is None or planned.record is None or planned.record.measurement is None:
            continue
        axes.boxplot(
            [[1000 * seconds for seconds in planned.record.measurement.latency_s]],
            positions=[group - 0.43 + width * (index + 0.5)],
            widths=width * 0.8,
            whis=(5, 95),
            showfliers=False,
            patch_artist=True,
            boxprops=_fill(place),
            medianprops={"color": "black"},
            manage_ticks=False,
        )


def _finish(axes: Axes, title: str, unit: str, batches: Sequence[int]) -> None:
    axes.set_title(title, fontsize=10)
    axes.set_ylabel(unit)
    axes.set_xlabel("batch size")
    axes.set_xticks(range(len(batches)), list(map(str, batches)))
    axes.set_xlim(-0.5, len(batches) - 0.5)
    axes.set_ylim(bottom=0)
    tidy(axes)
