"""A search for the best cell: what became of each cell, and when, as a table and as a picture."""

from collections import Counter, defaultdict

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from accelbench.presentation import significant
from accelbench.report.pictures.style import finished, sized, tidy
from accelbench.report.tables.table import Column, Table, count, number, tabulate_known
from accelbench.schema.race_file import RaceFile, RaceOutcome

UNITS = {"throughput": "samples/s", "latency": "p50 (ms)", "energy": "J/sample"}
NOTE = (
    "The search measured the cells in short windows first, and the most promising ones again and in full. The value "
    "is the median over a cell's processes; of a cell without a full measurement it is from short windows, and only "
    "tells which cells are worth more time. Out after: how many processes, of all cells, had run when it dropped out."
)
# Okabe and Ito's colours.
COLOURS = {
    RaceOutcome.best: "#D55E00",
    RaceOutcome.leads: "#E69F00",
    RaceOutcome.left: "#0072B2",
    RaceOutcome.dropped: "#999999",
    RaceOutcome.over: "#CC79A7",
    RaceOutcome.failed: "#000000",
}


def table(race: RaceFile) -> Table | None:
    """A line for each cell that could run, by group and outcome, and within these the best first."""
    num = Counter(process.cell for process in race.processes)
    in_full = Counter(process.cell for process in race.processes if process.is_full)
    columns: list[Column[int]] = [
        Column("what", lambda i: race.cells[i].group),
        Column("cell", lambda i: race.cells[i].label),
        Column(UNITS[race.by], lambda i: race.cells[i].value, number),
        Column("processes", lambda i: num[i] or None, count),
        Column("in full", lambda i: in_full[i] or None, count),
        Column("outcome", lambda i: race.cells[i].outcome),
        Column("out after", lambda i: race.cells[i].after, count),
    ]
    outcomes, groups = list(RaceOutcome), list(dict.fromkeys(cell.group for cell in race.cells))
    sign = -1 if race.by == "throughput" else 1

    def place(i: int) -> tuple[int, int, float]:
        cell = race.cells[i]
        return groups.index(cell.group), outcomes.index(cell.outcome), sign * (cell.value or 0.0)

    return tabulate_known("The search", columns, sorted(range(len(race.cells)), key=place), [*race.answers, NOTE])


def picture(race: RaceFile, title: str, warning: str) -> Figure | None:
    """A dot for each process, hollow for a short window, and a line as long as its cell was in the race.

    None if no process gave a number.
    """
    points: dict[int, list[tuple[int, float, bool]]] = defaultdict(list)
    for at, process in enumerate(race.processes, 1):
        if process.value is not None:
            points[process.cell].append((at, process.value, process.is_full))
    if not points:
        return None
    figure = sized(8.5, 4.5)
    axes = figure.subplots()
    for i, of_cell in points.items():
        cell = race.cells[i]
        is_in_front = cell.outcome in (RaceOutcome.best, RaceOutcome.leads, RaceOutcome.left)
        colour, order = COLOURS[cell.outcome], 2 + is_in_front
        for at, value, is_full in of_cell:
            fill = "full" if is_full else "none"
            axes.plot(at, value, "o", markersize=4, color=colour, fillstyle=fill, zorder=order)
        if cell.value:
            ends = (of_cell[0][0], cell.after or len(race.processes))
            axes.plot(ends, (cell.value, cell.value), color=colour, linewidth=0.8, zorder=order)
    axes.set_yscale("log")
    axes.set_ylabel(UNITS[race.by])
    axes.set_xlabel("processes, in their order")
    tidy(axes)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: significant(value)))
    outcomes = [outcome for outcome in COLOURS if any(race.cells[i].outcome == outcome for i in points)]
    handles = [Line2D([], [], marker="o", color=COLOURS[outcome], label=outcome) for outcome in outcomes]
    handles.append(Line2D([], [], marker="o", linestyle="", color="black", fillstyle="none", label="short window"))
    return finished(figure, title, warning, handles, 6)
