"""Pictures of what a step has to do: how near it comes to its device's ceiling, and where its time goes."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import NullFormatter

from accelbench.judging.row import ceilings_of, phases_ms
from accelbench.presentation import PHASE_COLOURS, significant
from accelbench.report.pictures.style import COLOURS, DPI, MARKERS, Place, head, place_label, place_of, places, tidy
from accelbench.report.read import ReportedCell
from accelbench.report.tables.study_times import one_of_each
from accelbench.schema.vocab import Mode, Phase

GIGA = 1e9
MAX_BARS = 40
MAX_NAMED = 14  # points of a panel that still have room for their names


def roofline(cells: Sequence[ReportedCell], head_lines: tuple[str, str]) -> Figure | None:
    """Operations per second against operations per byte, under the roof of each device and precision.

    The roof is what arithmetic and memory allow (Williams, Waterman and Patterson, "Roofline: an insightful visual
    performance model", CACM 52, 2009), both as measured. Bytes are estimated as if there were no caches, so that a
    point may lie above the slope. None where no cell has all of it.
    """
    known = [
        planned
        for planned in one_of_each(planned for planned in cells if planned.is_ok)
        if planned.number("flops_per_s") and planned.number("bytes_per_sample") and _ceiling(planned)
    ]
    if not known:
        return None
    modes = [mode for mode in Mode if any(planned.cell.mode == mode for planned in known)]
    figure = Figure(figsize=(5.2 * len(modes) + 1.4, 4.4), layout="constrained", dpi=DPI)
    shown = places(place_of(planned.row) for planned in known)
    for axes, mode in zip(figure.subplots(1, len(modes), squeeze=False, sharey=True)[0], modes, strict=True):
        _draw_roofs(axes, [planned for planned in known if planned.cell.mode == mode])
        axes.set_title(mode, fontsize=10, loc="left")
        axes.set_xlabel("operations per byte (estimated)")
    figure.axes[0].set_ylabel("GFLOP/s")
    handles = [
        Line2D([], [], color=COLOURS[place[0]], marker=MARKERS[place[1]], linewidth=1, label=place_label(place))
        for place in shown
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=max(2, len(handles)), fontsize=8, frameon=False)
    head(figure, head_lines)
    return figure


def _ceiling(planned: ReportedCell) -> tuple[float, float] | None:
    """Operations and bytes per second that the cell's devices reach at most."""
    ceilings = ceilings_of(planned.record) if planned.record else None
    rate = ceilings.ceiling_of(planned.cell.precision) if ceilings else None
    return (rate, ceilings.memory_bytes_per_s) if ceilings and rate else None


def _draw_roofs(axes: Axes, cells: Sequence[ReportedCell]) -> None:
    points = [
        (planned, (planned.number("flops_per_sample") or 0) / (planned.number("bytes_per_sample") or 1))
        for planned in cells
    ]
    low, high = min(x for _, x in points) / 3, max(x for _, x in points) * 3
    roofs: dict[Place, tuple[float, float]] = {}
    for planned, intensity in points:
        place = place_of(planned.row)
        ceiling = _ceiling(planned)
        assert ceiling is not None, "only such cells are drawn"
        best = roofs.get(place, (0.0, 0.0))
        roofs[place] = max(best[0], ceiling[0]), max(best[1], ceiling[1])
        rate = (planned.number("flops_per_s") or 0) / GIGA
        axes.plot(intensity, rate, MARKERS[place[1]], color=COLOURS[place[0]], markersize=5, alpha=0.8)
        if len(points) <= MAX_NAMED:
            name = f"{planned.cell.model.name} b{planned.cell.batch_size}"
            axes.annotate(name, (intensity, rate), (4, 3), textcoords="offset points", fontsize=6)
    for place, (rate, memory) in roofs.items():
        ridge = rate / memory
        xs = sorted({low, high, *([ridge] if low < ridge < high else [])})
        axes.plot(xs, [min(rate, x * memory) / GIGA for x in xs], color=COLOURS[place[0]], linewidth=1)
        axes.annotate(
            f"{place[1]} {significant(rate / GIGA)}",
            (high, min(rate, high * memory) / GIGA),
            fontsize=6,
            color=COLOURS[place[0]],
            ha="right",
            va="bottom",
        )
    for axis, scale in ((axes.xaxis, axes.set_xscale), (axes.yaxis, axes.set_yscale)):
        scale("log")
        axis.set_major_formatter("{x:,g}")
        axis.set_minor_formatter(NullFormatter())
    tidy(axes)


def breakdown(cells: Sequence[ReportedCell], head_lines: tuple[str, str]) -> Figure | None:
    """Where the wall time of a step goes: a bar per cell, its phases as shares; None where no cell was looked into."""
    known = [
        planned
        for planned in one_of_each(planned for planned in cells if planned.is_ok)
        if planned.number("breakdown_framework_ms") is not None
    ]
    if not known:
        return None
    title = head_lines[0] + f": the first {MAX_BARS} of {len(known)} cells" * (len(known) > MAX_BARS)
    known = known[:MAX_BARS]
    figure = Figure(figsize=(8.5, 0.22 * len(known) + 1.5), layout="constrained", dpi=DPI)
    axes = figure.subplots()
    names = []
    for place, planned in enumerate(known):
        phases = phases_ms(planned.row)
        total, left = sum(phases.values()), 0.0
        for phase, length in phases.items():
            axes.barh(place, 100 * length / total, 0.78, left, color=PHASE_COLOURS[phase])
            left += 100 * length / total
        axes.annotate(
            f"{significant(total)} ms", (100, place), (3, 0), textcoords="offset points", fontsize=7, va="center"
        )
        names.append(planned.label)
    axes.set_yticks(range(len(known)), names, fontsize=7)
    axes.set_ylim(len(known) - 0.4, -0.6)
    axes.set_xlim(0, 100)
    axes.set_xlabel("% of a step's wall time")
    tidy(axes)
    axes.grid(visible=False, axis="y")
    there = [phase for phase in Phase if any(planned.number(f"breakdown_{phase}_ms") for planned in known)]
    handles = [Patch(color=PHASE_COLOURS[phase], label=phase.replace("_", " ")) for phase in there]
    figure.legend(handles=handles, loc="outside lower center", ncols=5, fontsize=8, frameon=False)
    head(figure, (title, head_lines[1]))
    return figure
