"""Every cell with its main figures, as the table of every cell and as what the page's script draws and filters."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from accelbench.presentation import seconds
from accelbench.report.pictures.style import LINE
from accelbench.report.read import ReportedCell, Sweep
from accelbench.report.tables import device_scaling, engine_pairs
from accelbench.report.tables.options import named
from accelbench.report.tables.table import Entry, Table, count, number, percent, word
from accelbench.schema.record import Row, Value
from accelbench.schema.vocab import Device, Engine, Mode, Precision, Status

# What the page can be filtered by: a column and its name for people.
FILTERS = {
    **{"suite": "suite", "model": "model", "mode": "mode", "device": "device", "precision": "precision"},
    **{"batch_size": "batch", "options": "options", "engine": "engine", "protocol": "protocol", "outcome": "status"},
}
# What tells the cells of one chart apart, beside the batch.
SERIES = [
    *(column for column in LINE if column != "engine"),
    "framework",
    "steps",
    "seed",
    "repeat",
]


@dataclass(frozen=True)
class Column:
    """A column of the table of every cell.

    Attributes:
        name: of `cells.csv`, or of what `extension` adds.
        kind: how it is shown: `word`, `count`, `number`, `percent` (of a share) or `time`, which may be estimated.
    """

    heading: str
    name: str
    kind: str = "number"


COLUMNS = [
    Column("cell", "label", "word"),
    Column("status", "outcome", "word"),
    *(Column(name, name, "word") for name in ("suite", "model", "mode", "device", "precision")),
    Column("batch", "batch_size", "count"),
    Column("options", "options", "word"),
    Column("engine", "framework", "word"),
    Column("protocol", "protocol", "word"),
    Column("samples/s", "samples_per_s"),
    Column("low", "samples_per_s_low"),
    Column("high", "samples_per_s_high"),
    *(Column(f"latency p{percentile} (ms)", f"latency_p{percentile}_ms") for percentile in (50, 90, 99)),
    Column("launch p50 (ms)", "launch_p50_ms"),
    Column("first step (s)", "first_step_s"),
    Column("threads", "threads", "count"),
    Column("compile (s)", "compile_s"),
    Column("peak host (MB)", "peak_host_mb"),
    Column("peak device (MB)", "peak_device_mb"),
    Column("time (s)", "time_s", "time"),
    Column("data wait (%)", "data_wait_share", "percent"),
    Column("of the ceiling (%)", "mfu", "percent"),
    Column("bound by", "bound", "word"),
    Column("J/sample", "energy_j_per_sample"),
    Column("cost of a million samples", "cost_per_million_samples"),
    Column("accuracy (%)", "accuracy", "percent"),
    Column("test loss", "test_loss"),
    Column("reason or warnings", "remark", "word"),
]


@dataclass(frozen=True)
class Metric:
    """What the charts can show.

    Attributes:
        name: of `cells.csv`; its interval is in `<name>_low` and `<name>_high` where those are columns.
        better: which of two cells is the better one: the one with `more` or with `less`.
        kind: as a column's.
    """

    heading: str
    name: str
    better: str = "less"
    kind: str = "number"


METRICS = [
    Metric("throughput (samples/s)", "samples_per_s", "more"),
    Metric("latency p50 (ms)", "latency_p50_ms"),
    Metric("latency p99 (ms)", "latency_p99_ms"),
    Metric("energy (J/sample)", "energy_j_per_sample"),
    Metric("cost of a million samples", "cost_per_million_samples"),
    Metric("share of the ceiling (%)", "mfu", "more", "percent"),
    Metric("peak memory of the device (MB)", "peak_device_mb"),
    Metric("peak memory of the host (MB)", "peak_host_mb"),
    Metric("time of the whole job (s)", "time_s"),
    Metric("compilation (s)", "compile_s"),
    Metric("test accuracy (%)", "accuracy", "more", "percent"),
]


@dataclass(frozen=True, kw_only=True)
class Cells:
    """Every planned cell.

    Attributes:
        columns: those of the table that any cell has a value for.
        rows: of `cells.csv`, with what `extension` adds.
        csv_columns: the columns of `cells.csv`, in order.
    """

    columns: list[Column]
    rows: list[Row] = field(repr=False)
    csv_columns: list[str]

    @property
    def table(self) -> Table:
        """The table of every cell."""
        return Table(
            title="Every cell",
            headings=[column.heading for column in self.columns],
            rows=[[ENTRY[column.kind](row, column.name) for column in self.columns] for row in self.rows],
            notes=[
                "~ marks an estimated time. Latency is waited for; launch is when the call returned, which some "
                "benchmarks publish. The first step stands apart from the steady state. A dash is an unknown value. "
                "All columns are in cells.csv; those that no cell has a value for are left out here. A cell's name is "
                "its run's in MLflow, in the experiment accelbench/<suite>, where it was tracked; what was skipped has "
                "none."
            ],
        )

    @property
    def data(self) -> dict[str, Any]:
        """What the page's script needs, as plain JSON values."""
        names = list(self.rows[0]) if self.rows else []
        return {
            "names": names,
            "rows": [[row[name] for name in names] for row in self.rows],
            "csv": self.csv_columns,
            "columns": [[column.heading, column.name, column.kind] for column in self.columns],
            "filters": [[heading, name] for name, heading in FILTERS.items()],
            "metrics": [
                {**vars(metric), "low": f"{metric.name}_low", "high": f"{metric.name}_high"}
                for metric in METRICS
                if any(row[metric.name] is not None for row in self.rows)
            ],
            "series": SERIES,
            "order": [each.value for words in (Status, Mode, Device, Precision, Engine) for each in words],
        }


def cells(sweeps: Sequence[Sweep]) -> Cells:
    """All cells of `sweeps`, in the plans' order."""
    of_csv = [row for sweep in sweeps for row in device_scaling.rows(sweep)]
    added = [
        extension(sweep, planned, ratios)
        for sweep in sweeps
        for ratios in (engine_pairs.ratios(sweep),)
        for planned in sweep.cells
    ]
    rows = [row | more for row, more in zip(of_csv, added, strict=True)]
    known = [column for column in COLUMNS if any(row[column.name] is not None for row in rows)]
    return Cells(columns=known, rows=rows, csv_columns=list(of_csv[0]) if of_csv else [])


def extension(sweep: Sweep, planned: ReportedCell, ratios: Mapping[str, engine_pairs.Ratio]) -> Row:
    """What people see of a cell beside its row of `cells.csv`: names, what is on, how it ended and what to know of it.

    Args:
        sweep: the one that planned it.
        planned: the cell.
        ratios: of that sweep's cells with another engine's equal, by their names (`engines.ratios`).
    """
    row, ratio = planned.row, ratios.get(planned.name)
    return {
        "name": f"{sweep.folder}/{planned.name}",  # two suites may hold one and the same cell
        "label": planned.label,
        "folder": sweep.folder,
        "options": named(row | {"engine": Engine.lightning}),  # the engine is a setting of its own here
        "framework": engine_pairs.framework(planned.cell),
        "outcome": planned.outcome,
        "remark": row["warnings"] or row["reason"],
        "pair": ratio.pair if ratio else None,
        "ratio": ratio.text if ratio else None,
    }


def _time(row: Row, name: str) -> Entry:
    value: Value = row[name]
    known = float(value) if value is not None else None
    return Entry(seconds(known, estimated=row["time_provenance"] == "estimated"), known)


ENTRY: Mapping[str, Callable[[Row, str], Entry]] = {
    "word": lambda row, name: word(str(row[name]) if row[name] else None),
    "count": lambda row, name: count(row[name]),
    "number": lambda row, name: number(row[name]),
    "percent": lambda row, name: percent(row[name]),
    "time": _time,
}
