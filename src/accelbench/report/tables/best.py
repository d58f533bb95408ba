"""What to run a model with: the best cells by speed, latency, energy and money, and the Pareto front of all four."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from accelbench.judging.row import warnings_of
from accelbench.judging.warnings import relative_half_width
from accelbench.report.read import ReportedCell, Sweep
from accelbench.report.tables.options import options_text
from accelbench.report.tables.table import Column, Entry, Table, columns_of, count, number, tabulate_known, word
from accelbench.schema.cell import CHOSEN_SETTINGS
from accelbench.schema.record import Row, number_of
from accelbench.schema.serialize import group_key
from accelbench.schema.vocab import Augment, Library, Pipeline, Protocol

# Criterion -> its column of cells.csv, and whether more or less is better.
CRITERIA: dict[str, tuple[str, Literal["most", "least"]]] = {
    "throughput": ("samples_per_s", "most"),
    "latency": ("latency_p50_ms", "least"),
    "energy": ("energy_j_per_sample", "least"),
    "money": ("cost_per_million_samples", "least"),
}
UNBEATEN = "unbeaten"
MAX_UNBEATEN = 8  # of one model and mode


@dataclass(frozen=True)
class Choice:
    """A cell that is worth choosing, and why.

    Attributes:
        workload: the model and what was done with it, such as `resnet18 infer, random 3x224x224`.
        criteria: what the cell is best by, such as `throughput, latency`.
        row: of `cells.csv`.
    """

    workload: str
    criteria: str
    row: Row


def best_by(rows: Sequence[Row], criterion: str) -> Row | None:
    """The best of `rows` by one of `CRITERIA`; None if it is unknown for all of them."""
    column, kind = CRITERIA[criterion]
    known = [(value, row) for row in rows if (value := number_of(row, column)) is not None]
    if not known:
        return None
    return (max if kind == "most" else min)(known, key=lambda pair: pair[0])[1]


def unbeaten(rows: Sequence[Row]) -> list[Row]:
    """The Pareto front, fastest first.

    A row is left out if another is at least as good by every criterion that is known of all rows.
    """
    columns = [(c, kind) for c, kind in CRITERIA.values() if all(number_of(row, c) is not None for row in rows)]

    def merits(row: Row) -> list[float]:
        return [(1 if kind == "most" else -1) * (number_of(row, column) or 0.0) for column, kind in columns]

    scored = sorted(((merits(row), row) for row in rows), key=lambda pair: pair[0], reverse=True)
    front: list[tuple[list[float], Row]] = []
    for merit, row in scored:  # in this order, no row beats an earlier one
        if columns and not any(all(a >= b for a, b in zip(better, merit, strict=True)) for better, _ in front):
            front.append((merit, row))
    return [row for _, row in front]


def is_within(row: Row, latency_ms: float | None) -> bool:
    """Whether the row's median latency is known and at most `latency_ms`; None: there is no limit."""
    return latency_ms is None or (number_of(row, "latency_p50_ms") or float("inf")) <= latency_ms


def choices(rows: Sequence[Row]) -> list[tuple[str, Row]]:
    """Each criterion with its best row, then the rest of the Pareto front as `unbeaten`.

    Args:
        rows: of ok cells that did the same thing.
    """
    found = [(criterion, row) for criterion in CRITERIA if (row := best_by(rows, criterion)) is not None]
    chosen = [id(row) for _, row in found]
    return found + [(UNBEATEN, row) for row in unbeaten(rows)[:MAX_UNBEATEN] if id(row) not in chosen]


def half_width_entry(row: Row) -> Entry:
    """`relative_half_width` in percent."""
    width = relative_half_width(row)
    return number(None if width is None else 100 * width, 2)


def num_warnings(row: Row) -> Entry:
    """How many warnings a cell has; a dash if it has none."""
    return count(len(warnings_of(row)) or None)


# What a cell achieved, of its row.
FIGURES: list[Column[Row]] = [
    Column("samples/s", lambda row: number(row["samples_per_s"])),
    Column("± (%)", half_width_entry),
    Column("tokens/s", lambda row: number(row["tokens_per_s"])),
    Column("p50 (ms)", lambda row: number(row["latency_p50_ms"])),
    Column("J/sample", lambda row: number(row["energy_j_per_sample"])),
    Column("cost of a million", lambda row: number(row["cost_per_million_samples"])),
    Column("bound by", lambda row: word(str(row["bound"]) if row["bound"] else None)),
    Column("warnings", num_warnings),
]
COLUMNS: list[Column[Choice]] = [
    Column("what", lambda choice: word(choice.workload)),
    Column("best by", lambda choice: word(choice.criteria)),
    Column("device", lambda choice: word(str(choice.row["device"]))),
    Column("precision", lambda choice: word(str(choice.row["precision"]))),
    Column("options", lambda choice: word(options_text(choice.row))),
    Column("batch", lambda choice: count(choice.row["batch_size"])),
    *columns_of(lambda choice: choice.row, FIGURES, "samples/s", "± (%)", "p50 (ms)", "J/sample"),
    *columns_of(lambda choice: choice.row, FIGURES, "cost of a million", "bound by", "warnings"),
]


def table(sweeps: Sequence[Sweep]) -> Table | None:
    """What to use, for each model and what is done with it; None if no cell is ok."""
    notes = [
        "The best ok cell by each known criterion. Unbeaten: no other cell is at least as good by all criteria that "
        "are known of every cell. Of several repeats and seeds, the one with the middle throughput (the slower of two) "
        "is shown. ± is half of the 95 % interval within one process: use `accelbench compare` for cells that are "
        "closer than that. Warnings: how many the cell has; the table of every cell has their text."
    ]
    chosen = [
        Choice(workload_text(cells[0]), criteria, row)
        for cells in workloads(sweeps)
        for row, criteria in merged(choices([reported.row for reported in typical(cells)]))
    ]
    return tabulate_known("What to use, by each criterion", COLUMNS, chosen, notes)


def workloads(sweeps: Sequence[Sweep]) -> list[list[ReportedCell]]:
    """The ok cells with a throughput, in groups that did the same thing with other `CHOSEN_SETTINGS`."""
    found: dict[str, list[ReportedCell]] = {}
    for reported in (reported for sweep in sweeps for reported in [*sweep.cells, *sweep.confirming]):
        if reported.is_ok and reported.row["samples_per_s"] is not None:
            found.setdefault(group_key(reported.all_but(*CHOSEN_SETTINGS)), []).append(reported)
    return list(found.values())


def typical(cells: Sequence[ReportedCell]) -> list[ReportedCell]:
    """One of the repeats and seeds of each cell: the one with the median throughput, or the slower of the middle two.

    Reporting the fastest repeat would bias the result upwards.

    Args:
        cells: ok, with a known throughput.
    """
    repeats: dict[str, list[ReportedCell]] = {}
    for reported in cells:
        repeats.setdefault(reported.measured_key, []).append(reported)
    return [sorted(each, key=_rate)[(len(each) - 1) // 2] for each in repeats.values()]


def workload_text(reported: ReportedCell) -> str:
    """The model, what is done with it, and on what, such as `resnet18 infer, random 3x224x224`."""
    return f"{model_text(reported)} {reported.cell.mode}, {data_text(reported)}"


def model_text(reported: ReportedCell) -> str:
    """The model, with its arguments if they may vary: of accelbench's own networks, conf/ has them."""
    arguments = reported.row["arguments"] if reported.cell.model.library != Library.accelbench else None
    return f"{reported.cell.model.name}({arguments})" if arguments else reported.cell.model.name


def data_text(reported: ReportedCell) -> str:
    """The data, the input's shape, and how they are fed and measured if that is not the usual way."""
    row, cell = reported.row, reported.cell
    data = cell.model.batch.rpartition(".")[2] if cell.model.batch else str(row["data"])
    words = [data + " (stand-in)" * bool(row["stand_in"]), row["input_shape"], feeding_text(reported)]
    return " ".join(str(part) for part in words if part)


def feeding_text(reported: ReportedCell) -> str:
    """How the data are fed and measured if that is not the usual way, such as `jpeg flip fit`; else empty."""
    cell = reported.cell
    usual = (Pipeline.array, Augment.none, Protocol.window)
    pairs = zip((cell.data.pipeline, cell.data.augment, cell.protocol), usual, strict=True)
    return " ".join(value for value, default in pairs if value != default)


def merged(found: Sequence[tuple[str, Row]]) -> list[tuple[Row, str]]:
    """Each row once, with all criteria that it is best by."""
    criteria: dict[int, list[str]] = {}
    for criterion, row in found:
        criteria.setdefault(id(row), []).append(criterion)
    return [(row, ", ".join(criteria.pop(id(row)))) for _, row in found if id(row) in criteria]


def _rate(reported: ReportedCell) -> float:
    return reported.number("samples_per_s") or 0.0
