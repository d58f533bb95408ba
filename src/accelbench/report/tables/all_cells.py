"""Every cell with its main figures: what the page's script draws, filters and lists."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from accelbench.answers.cells import MeasuredCell
from accelbench.answers.groups import Group
from accelbench.answers.process import NOT_RUN
from accelbench.answers.sentences import verdict_text
from accelbench.answers.words import disturbed_text, engine_text, options_text
from accelbench.judging.warnings import relative_half_width
from accelbench.presentation import checked_words
from accelbench.report import csv_file
from accelbench.report.read import Sweep
from accelbench.schema.record import Row
from accelbench.schema.vocab import Device, Engine, Mode, Precision, Status

# The page's filters: a column of the rows, and the name that the page shows.
FILTERS = {
    **{"suite": "suite", "model": "model", "mode": "mode", "device": "device", "precision": "precision"},
    **{"batch_size": "batch", "options": "options", "engine": "engine", "protocol": "protocol", "outcome": "status"},
}
# The columns in which cells of one line of a chart are equal.
SERIES = [
    *("device", "precision", "options", "data", "pipeline", "num_workers", "augment", "input_shape"),
    *("protocol", "epochs", "threads", "framework", "steps", "rate", "max_delay_ms", "workers", "seed", "repeat"),
]


class CsvColumn(NamedTuple):
    """A column of the table of every cell: its heading, its name, and how it is shown.

    The name is that of a column of `cells.csv`, or a key that `extension` adds. The charts show those of which it is
    known what is better.
    """

    heading: str
    name: str
    kind: str = "number"  # or word, count, percent (of a share), percent2 (two digits), or time, which may be estimated
    better: str = ""  # more or less
    title: str = ""  # of a chart, if it is not the heading


# What the table shows at once; `more columns` shows the others.
MAIN = [
    CsvColumn("cell", "label", "word"),
    CsvColumn("samples/s", "samples_per_s", better="more", title="throughput (samples/s)"),
    CsvColumn("tokens/s", "tokens_per_s", better="more"),
    CsvColumn("± (%)", "half_width", "percent2"),
    CsvColumn("first token (ms)", "ttft_ms", better="less"),
    CsvColumn("a token (ms)", "tpot_p50_ms", better="less"),
    CsvColumn("p50 (ms)", "latency_p50_ms", better="less", title="latency p50 (ms)"),
    CsvColumn("against the fastest", "against", "word"),
    CsvColumn("requests/s offered", "offered_per_s"),
    CsvColumn("p99 of requests (ms)", "request_p99_ms", better="less"),
    CsvColumn("within its limit", "verdict", "word"),
    CsvColumn("to the target (s)", "target_s", better="less", title="time to the target (s)"),
    CsvColumn("doubts, or the reason", "remark", "word"),
]
COLUMNS = [
    *MAIN,
    CsvColumn("status", "outcome", "word"),
    *(CsvColumn(name, name, "word") for name in ("suite", "model", "mode", "device", "precision")),
    CsvColumn("batch", "batch_size", "count"),
    *(CsvColumn(name, name, "word") for name in ("options", "arguments")),
    CsvColumn("engine", "framework", "word"),
    CsvColumn("protocol", "protocol", "word"),
    *(CsvColumn(end, f"samples_per_s_{end}") for end in ("low", "high")),
    CsvColumn("decode tokens/s", "decode_tokens_per_s"),
    CsvColumn("key-value cache (MB)", "kv_cache_mb"),
    CsvColumn("latency p90 (ms)", "latency_p90_ms"),
    CsvColumn("latency p99 (ms)", "latency_p99_ms", better="less"),
    CsvColumn("launch p50 (ms)", "launch_p50_ms"),
    CsvColumn("threads", "threads", "count"),
    CsvColumn("scaling efficiency (%)", "scaling_efficiency", "percent"),
    CsvColumn("compile (s)", "compile_s", better="less", title="compilation (s)"),
    CsvColumn("peak host (MB)", "peak_host_mb", better="less", title="peak memory of the host (MB)"),
    CsvColumn("peak device (MB)", "peak_device_mb", better="less", title="peak memory of the device (MB)"),
    CsvColumn("time (s)", "time_s", "time", better="less", title="time of the whole job (s)"),
    CsvColumn("data wait (%)", "data_wait_share", "percent"),
    CsvColumn("of the ceiling (%)", "mfu", "percent", "more", "share of the ceiling (%)"),
    CsvColumn("bound by", "bound", "word"),
    CsvColumn("GPU (%)", "gpu_utilization_percent"),
    CsvColumn("J/sample", "energy_j_per_sample", better="less", title="energy (J/sample)"),
    CsvColumn("cost of a million samples", "cost_per_million_samples", better="less"),
    CsvColumn("J/request", "energy_j_per_request", better="less", title="energy (J/request)"),
    CsvColumn("cost of a million requests", "cost_per_million_requests", better="less"),
    CsvColumn("mean batch", "mean_batch"),
    CsvColumn("busy (%)", "busy_share", "percent"),
    CsvColumn("accuracy (%)", "accuracy", "percent", "more", "test accuracy (%)"),
    CsvColumn("test loss", "test_loss"),
    *(CsvColumn(name, name, "word") for name in ("tips", "notes", "checked")),
]
# Cells with such an outcome share a line for each reason.
FOLDED = (Status.skipped, NOT_RUN)


@dataclass(frozen=True, kw_only=True)
class Cells:
    """Every planned cell."""

    columns: list[CsvColumn]  # those of the table that hold a value for any cell
    rows: list[Row] = field(repr=False)  # the rows of `cells.csv`, with what `extension` adds
    csv_columns: list[str]  # of `cells.csv`, in order

    @property
    def data(self) -> dict[str, Any]:
        """What the page's script needs, as plain JSON values."""
        names = list(self.rows[0]) if self.rows else []
        return {
            "names": names,
            "rows": [[row[name] for name in names] for row in self.rows],
            "csv": self.csv_columns,
            "columns": self.columns,
            "main": [column.name for column in MAIN],
            "folded": FOLDED,
            "filters": [[heading, name] for name, heading in FILTERS.items()],
            "metrics": [
                each._asdict()
                | {"heading": each.title or each.heading, **{e: f"{each.name}_{e}" for e in ("low", "high")}}
                for each in self.columns
                if each.better
            ],
            "series": SERIES,
            "order": [each.value for words in (Status, Mode, Device, Precision, Engine) for each in words],
        }


def cells(sweeps: Sequence[Sweep], groups: Iterable[Group]) -> Cells:
    """All cells of `sweeps`, in the plans' order; `groups` say how each stands to the fastest of its group."""
    csv_rows = [row for sweep in sweeps for row in csv_file.rows(sweep)]
    every = [(sweep, cell) for sweep in sweeps for cell in sweep.cells]
    wanted = {cell.measured_key for _, cell in every}
    against = {
        cell.measured_key: verdict_text(group, cell)
        for group in groups
        for cell in group.cells
        if len(group.cells) > 1 and cell.measured_key in wanted
    }
    rows = [
        row | extension(sweep, cell) | {"against": against.get(cell.measured_key)}
        for row, (sweep, cell) in zip(csv_rows, every, strict=True)
    ]
    known = [column for column in COLUMNS if any(row[column.name] is not None for row in rows)]
    return Cells(columns=known, rows=rows, csv_columns=list(csv_rows[0]) if csv_rows else [])


def name_on_page(cell: MeasuredCell) -> str:
    """What the page's script knows the cell by: two suites may hold the same cell."""
    return f"{cell.folder}/{cell.name}"


def extension(sweep: Sweep, cell: MeasuredCell) -> Row:
    """What the page shows of a cell besides its row of `cells.csv`: names, options, outcome, remarks."""
    row = cell.row
    measured = cell.record.measurement if cell.record else None
    return {
        "name": name_on_page(cell),
        "label": cell.label,
        "folder": sweep.folder,
        "options": options_text(row | {"engine": Engine.pytorch}),  # the page shows the engine as a filter
        "framework": engine_text(row),
        "outcome": cell.outcome,
        "half_width": relative_half_width(row),
        "checked": checked_words(measured.checks, fully=False) if measured else None,
        "remark": disturbed_text(cell) if cell.disturbed else cell.reason or row["warnings"] or row["reason"],
    }
