"""A search for the best cell: every process in its order, and when cells dropped out."""

from collections import defaultdict

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from accelbench.presentation import significant
from accelbench.report.pictures.style import DPI, add_legend, add_title, tidy
from accelbench.report.tables.race import UNITS
from accelbench.schema.race_file import RaceFile, RaceOutcome

# Okabe and Ito's colours.
COLOURS = {
    RaceOutcome.best: "#D55E00",
    RaceOutcome.leads: "#E69F00",
    RaceOutcome.left: "#0072B2",
    RaceOutcome.dropped: "#999999",
    RaceOutcome.over: "#CC79A7",
    RaceOutcome.failed: "#000000",
}


def race(found: RaceFile, title: str, warning: str) -> Figure | None:
    """A dot for each process, hollow for a short window, and a line as long as its cell was in the race.

    None if no process gave a number.
    """
    known = [(at, process) for at, process in enumerate(found.processes, 1) if process.value is not None]
    if not known:
        return None
    figure = Figure(figsize=(8.5, 4.5), layout="constrained", dpi=DPI)
    axes = figure.subplots()
    points: dict[int, list[tuple[int, float, bool]]] = defaultdict(list)
    for at, process in known:
        points[process.cell].append((at, process.value or 0.0, process.is_full))
    for i, of_cell in points.items():
        cell = found.cells[i]
        colour = COLOURS[cell.outcome]
        is_in_front = 2 + (cell.outcome in (RaceOutcome.best, RaceOutcome.leads, RaceOutcome.left))
        for at, value, is_full in of_cell:
            axes.plot(
                at, value, "o", markersize=4, color=colour, fillstyle="full" if is_full else "none", zorder=is_in_front
            )
        if cell.value:
            ends = (of_cell[0][0], cell.after or len(found.processes))
            axes.plot(ends, (cell.value, cell.value), color=colour, linewidth=0.8, zorder=is_in_front)
    axes.set_yscale("log")
    axes.set_ylabel(UNITS[found.by])
    axes.set_xlabel("processes, in their order")
    tidy(axes)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: significant(value)))
    outcomes = [outcome for outcome in COLOURS if any(found.cells[i].outcome == outcome for i in points)]
    handles = [Line2D([], [], marker="o", color=COLOURS[outcome], label=outcome) for outcome in outcomes]
    handles.append(Line2D([], [], marker="o", linestyle="", color="black", fillstyle="none", label="short window"))
    add_legend(figure, handles, 6)
    add_title(figure, title, warning)
    return figure
