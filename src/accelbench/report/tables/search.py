"""A search for the best cell: what became of each cell, and when."""

from collections import Counter

from accelbench.report.tables.table import Column, Table, count, number, tabulate_known
from accelbench.schema.race_file import RaceFile, RaceOutcome

UNITS = {"throughput": "samples/s", "latency": "p50 (ms)", "energy": "J/sample"}
NOTE = (
    "The search measured the cells in short windows first, and the most promising ones again and in full. The value "
    "is the median over a cell's processes; of a cell without a full measurement it is from short windows, and only "
    "tells which cells are worth more time. Out after: how many processes, of all cells, had run when it dropped out."
)


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
