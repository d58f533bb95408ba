"""What to run a model with: the best cells by speed, latency, energy and money, and those that no other one beats."""

from collections.abc import Sequence
from typing import Literal

from accelbench.judging.row import warnings_of
from accelbench.report.read import ReportedCell, Sweep
from accelbench.report.tables.options import named
from accelbench.report.tables.table import Entry, Table, count, number, word
from accelbench.schema.record import Row
from accelbench.schema.serialize import canonical_json
from accelbench.schema.vocab import Augment, Library, Pipeline, Protocol

# What is wanted -> the column that tells, and whether more or less of it is better.
CRITERIA: dict[str, tuple[str, Literal["most", "least"]]] = {
    "throughput": ("samples_per_s", "most"),
    "latency": ("latency_p50_ms", "least"),
    "energy": ("energy_j_per_sample", "least"),
    "money": ("cost_per_million_samples", "least"),
}
FRONT = "unbeaten"
MAX_UNBEATEN = 8  # of one model and mode


# The settings between which is chosen; cells that differ in any other did different things.
CHOSEN = (
    *("engine", "keras", "device", "devices", "scaling", "precision", "options"),
    *("batch_size", "threads", "seed", "repeat"),
)


def best_by(rows: Sequence[Row], wanted: str) -> Row | None:
    """The best of `rows` by one criterion; None where none of them knows it."""
    column, kind = CRITERIA[wanted]
    known = [(value, row) for row in rows if (value := _number(row, column)) is not None]
    if not known:
        return None
    return (max if kind == "most" else min)(known, key=lambda pair: pair[0])[1]


def unbeaten(rows: Sequence[Row]) -> list[Row]:
    """The Pareto front: rows that no other one equals or beats in all that is known of every row, fastest first."""
    columns = [(c, kind) for c, kind in CRITERIA.values() if all(_number(row, c) is not None for row in rows)]

    def merits(row: Row) -> list[float]:
        return [(1 if kind == "most" else -1) * (_number(row, column) or 0.0) for column, kind in columns]

    scored = sorted(((merits(row), row) for row in rows), key=lambda pair: pair[0], reverse=True)
    front: list[tuple[list[float], Row]] = []
    for merit, row in scored:  # who comes later in this order beats nobody before
        if columns and not any(all(a >= b for a, b in zip(other, merit, strict=True)) for other, _ in front):
            front.append((merit, row))
    return [row for _, row in front]


def choices(rows: Sequence[Row], latency_ms: float | None = None) -> list[tuple[str, Row]]:
    """What is wanted -> the cell that has most of it, of rows between which is chosen.

    Args:
        rows: of ok cells that did the same thing.
        latency_ms: rows of a longer median latency, or an unknown one, are left out; None for no limit.
    """
    inside = [
        row for row in rows if latency_ms is None or (_number(row, "latency_p50_ms") or float("inf")) <= latency_ms
    ]
    found = [(wanted, row) for wanted in CRITERIA if (row := best_by(inside, wanted)) is not None]
    chosen = [id(row) for _, row in found]
    return found + [(FRONT, row) for row in unbeaten(inside)[:MAX_UNBEATEN] if id(row) not in chosen]


def table(sweeps: Sequence[Sweep], latency_ms: float | None = None) -> Table | None:
    """What to use, for each model and what is done with it; None where no ok cell is within the limit."""
    shown = [
        _line(what(cells[0]), wanted, row)
        for cells in groups(sweeps)
        for row, wanted in _merged(choices([planned.row for planned in typical(cells)], latency_ms))
    ]
    headings = ["what", "best by", "device", "precision", "options", "batch", "samples/s", "± (%)", "p50 (ms)"]
    headings += ["J/sample", "cost of a million", "bound by", "doubts"]
    notes = [
        "The best ok cell by each criterion that is known. Unbeaten: no other cell is at least as good in all that is "
        "known of every cell. Of several repeats and seeds, the one of the middle throughput (the slower of two) "
        "stands for all. ± is half of the 95 % interval within one process: where cells are that near, `accelbench "
        "compare` decides. Doubts: how many warnings the cell has; the table of every cell tells them."
    ]
    if latency_ms is not None:
        notes.append(f"Of cells whose median latency is at most {latency_ms:g} ms.")
    return (
        Table(title="What to use, by each criterion", headings=headings, rows=shown, notes=notes).known()
        if shown
        else None
    )


def groups(sweeps: Sequence[Sweep]) -> list[list[ReportedCell]]:
    """The ok cells with a throughput, in groups that did the same thing: between the cells of each is chosen."""
    found: dict[str, list[ReportedCell]] = {}
    for planned in (planned for sweep in sweeps for planned in sweep.cells if planned.is_ok):
        if planned.row["samples_per_s"] is not None:
            found.setdefault(canonical_json(planned.all_but(*CHOSEN)), []).append(planned)
    return list(found.values())


def typical(cells: Sequence[ReportedCell]) -> list[ReportedCell]:
    """One of the processes that measured the same: that of the middle throughput, the slower of two.

    The fastest would be told for its luck.

    Args:
        cells: ok ones whose throughput is known.
    """
    same: dict[str, list[ReportedCell]] = {}
    for planned in cells:
        same.setdefault(planned.measured_key, []).append(planned)
    return [sorted(each, key=_rate)[(len(each) - 1) // 2] for each in same.values()]


def what(planned: ReportedCell) -> str:
    """The model, what is done with it, and on what, such as `resnet18 infer, random 3x224x224`."""
    row, cell = planned.row, planned.cell
    words = [str(row["data"]) + " (stand-in)" * bool(row["stand_in"]), row["input_shape"]]
    words += [cell.data.pipeline if cell.data.pipeline != Pipeline.array else None]
    words += [cell.data.augment if cell.data.augment != Augment.none else None]
    words += [cell.protocol if cell.protocol != Protocol.window else None]
    own = cell.model.library == Library.custom
    arguments = ", ".join(f"{name}={value}" for name, value in cell.model.args.items()) if own else ""
    name = f"{cell.model.name}({arguments})" if arguments else cell.model.name
    return f"{name} {cell.mode}, {' '.join(str(part) for part in words if part)}"


def _merged(found: Sequence[tuple[str, Row]]) -> list[tuple[Row, str]]:
    """Each row once, with all that it is best by."""
    wanted: dict[int, list[str]] = {}
    for criterion, row in found:
        wanted.setdefault(id(row), []).append(criterion)
    return [(row, ", ".join(wanted.pop(id(row)))) for _, row in found if id(row) in wanted]


def _line(what: str, wanted: str, row: Row) -> list[Entry]:
    rate, low, high = (_number(row, f"samples_per_s{end}") for end in ("", "_low", "_high"))
    width = (high - low) / 2 / rate if rate and low is not None and high is not None else None
    return [
        word(what),
        word(wanted),
        *(word(str(row[column])) for column in ("device", "precision")),
        word(named(row)),
        count(row["batch_size"]),
        number(rate),
        number(None if width is None else 100 * width, 2),
        *(number(row[c]) for c in ("latency_p50_ms", "energy_j_per_sample", "cost_per_million_samples")),
        word(str(row["bound"]) if row["bound"] else None),
        doubts(row),
    ]


def doubts(row: Row) -> Entry:
    """How many warnings a cell has; unknown where it has none."""
    return count(len(warnings_of(row)) or None)


def _rate(planned: ReportedCell) -> float:
    return planned.number("samples_per_s") or 0.0


def _number(row: Row, column: str) -> float | None:
    value = row[column]
    return float(value) if isinstance(value, int | float) else None
