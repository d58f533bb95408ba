"""A search for the best cell: what became of each cell, and when."""

from collections import Counter

from accelbench.report.read import Sweep
from accelbench.report.tables.table import Column, Table, count, number, tabulate_known, word
from accelbench.schema.race_file import RacedCell, RaceFile, RaceOutcome

UNITS = {"throughput": "samples/s", "latency": "p50 (ms)", "energy": "J/sample"}
NOTE = (
    "The search measured the cells in short windows first, and the most promising ones again and in full. The value "
    "is the median over a cell's processes; of a cell without a full measurement it is from short windows, and only "
    "tells which cells are worth more time. Out after: how many processes, of all cells, had run when it dropped out."
)


def table(sweep: Sweep) -> Table | None:
    """A line for each cell that could run, the best first; None if the sweep was no search."""
    race = sweep.race
    if race is None:
        return None
    num = Counter(process.cell for process in race.processes)
    in_full = Counter(process.cell for process in race.processes if process.is_full)
    columns: list[Column[int]] = [
        Column("what", lambda i: word(race.cells[i].group)),
        Column("cell", lambda i: word(race.cells[i].label)),
        Column(UNITS[race.by], lambda i: number(race.cells[i].value)),
        Column("processes", lambda i: count(num[i] or None)),
        Column("in full", lambda i: count(in_full[i] or None)),
        Column("outcome", lambda i: word(race.cells[i].outcome)),
        Column("out after", lambda i: count(race.cells[i].after)),
    ]
    return tabulate_known("The search", columns, _in_order(race), [*race.answers, NOTE])


def _in_order(race: RaceFile) -> list[int]:
    """The cells by group and outcome, and within these by value."""
    outcomes, groups = list(RaceOutcome), list(dict.fromkeys(cell.group for cell in race.cells))

    def key(cell: RacedCell) -> tuple[int, int, float]:
        value = cell.value or 0.0
        return groups.index(cell.group), outcomes.index(cell.outcome), -value if race.by == "throughput" else value

    return sorted(range(len(race.cells)), key=lambda i: key(race.cells[i]))
