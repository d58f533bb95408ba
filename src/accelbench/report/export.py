"""Published numbers in the formats of other tools, made of the rows that the report shows.

Their sources:
- Bencher's metric format: https://bencher.dev/docs/reference/bencher-metric-format/
- github-action-benchmark's `customBiggerIsBetter`: https://github.com/benchmark-action/github-action-benchmark
- PyTorch's records: https://github.com/pytorch/pytorch/wiki/How-to-integrate-with-PyTorch-OSS-benchmark-database
- MLPerf's log lines: https://github.com/mlcommons/logging
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from accelbench.answers.cells import MeasuredCell, process_rows
from accelbench.judging.target import mllog, mllog_line
from accelbench.presentation import significant
from accelbench.report import csv_file
from accelbench.report.read import Sweep
from accelbench.schema.record import Record
from accelbench.schema.vocab import Mode

MAX_NAME = 1024  # characters of a benchmark's name in Bencher


class Metric(NamedTuple):
    """A number of a cell: its column, and those of its interval's bounds where they exist."""

    name: str  # in lower case with dashes, as Bencher's slugs
    column: str
    unit: str
    low: str = ""
    high: str = ""


METRICS = (
    Metric("throughput", "samples_per_s", "samples/s", "samples_per_s_low", "samples_per_s_high"),
    *(
        Metric(f"latency-{name}-ms", f"latency_{name}_ms", "ms", f"latency_{name}_ms_low", f"latency_{name}_ms_high")
        for name in ("p50", "p90", "p99")
    ),
    Metric("requests", "requests_per_s", "requests/s"),
    Metric("request-p99-ms", "request_p99_ms", "ms", "request_p99_ms_low", "request_p99_ms_high"),
    Metric("time-to-target-s", "target_s", "s", "target_low_s", "target_s"),
    Metric("energy-j-per-sample", "energy_j_per_sample", "J/sample"),
    Metric("peak-device-mb", "peak_device_mb", "MB"),
)


class Published(NamedTuple):
    """A number that is published."""

    benchmark: str  # the cell, with its sweep
    metric: Metric
    value: float
    low: float | None  # of the 95 % interval; None if that is unknown
    high: float | None
    raw: list[float]  # the number of each process that counts
    cell: MeasuredCell


def published(sweeps: Iterable[Sweep]) -> Iterator[Published]:
    """Yields the numbers of all cells that are ok."""
    for sweep in sweeps:
        for cell in sweep.cells:
            counted = cell.counted or [each for each in cell.processes if each.is_ok]
            for metric in METRICS if cell.is_ok else ():
                value, low, high = (
                    float(known) if name and isinstance(known := cell.row[name], int | float) else None
                    for name in (metric.column, metric.low, metric.high)
                )
                if value is not None:
                    raw = [known for each in counted if (known := each.number(metric.column)) is not None]
                    name = f"{sweep.folder}/{cell.label}"[:MAX_NAME]
                    yield Published(name, metric, value, low, high, raw, cell)


def bencher(sweeps: Sequence[Sweep]) -> str:
    """A mapping of benchmarks, each with its metrics."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for each in published(sweeps):
        bounds = {"lower_value": each.low, "upper_value": each.high}
        known = {"value": each.value} | {name: value for name, value in bounds.items() if value is not None}
        found.setdefault(each.benchmark, {})[each.metric.name] = known
    return _json(found)


def github(sweeps: Sequence[Sweep]) -> str:
    """Speeds alone: in one file all numbers are better if they are bigger, or all if they are smaller."""
    found = []
    for each in published(sweeps):
        if each.metric.name == "throughput":
            entry = {"name": each.benchmark, "unit": each.metric.unit, "value": each.value}
            if each.low is not None and each.high is not None:
                entry["range"] = f"{significant(each.low)} to {significant(each.high)}"
            found.append(entry | {"extra": f"{len(each.raw)} processes"})
    return _json(found)


def pytorch(sweeps: Sequence[Sweep]) -> str:
    """A record for each number, with that of every process that counts."""
    found = []
    for each in published(sweeps):
        cell, row = each.cell.cell, each.cell.row
        of_model = {"name": cell.model.name, "type": cell.model.library.value, "backend": cell.engine.value}
        machine = {"device": cell.device.value, "arch": row["device_name"]}
        settings = {"batch_size": cell.batch_size, "devices": cell.devices, "protocol": cell.protocol.value}
        mode = "training" if cell.mode == Mode.train else "inference"
        interval = {"unit": each.metric.unit, "value": each.value, "low": each.low, "high": each.high}
        found.append(
            {
                "benchmark": {
                    "name": each.benchmark,
                    "mode": mode,
                    "dtype": cell.precision.value,
                    "extra_info": machine | settings,
                },
                "model": of_model,
                "metric": {"name": each.metric.name, "benchmark_values": each.raw, "extra_info": interval},
            }
        )
    return _json(found)


def mlperf(sweeps: Sequence[Sweep]) -> str:
    """The events of each training to a target; of every other process its speed, as `tracked_stats`."""
    return "".join(
        _log(each.record, each.number("samples_per_s"))
        for sweep in sweeps
        for each in sweep.planned
        if each.is_ok and each.record is not None
    )


def _log(record: Record, rate: float | None) -> str:
    if lines := mllog(record):
        return lines
    at_ms = 1000 * datetime.fromisoformat(record.started_at).timestamp()
    said = {"benchmark": record.label, "record": record.name}
    return "" if rate is None else mllog_line("tracked_stats", at_ms, {"throughput": rate}, said)


def cells_csv(sweeps: Sequence[Sweep]) -> str:
    """As cells.csv of the report: a row for every cell, also for those without numbers."""
    return csv_file.text(row for sweep in sweeps for row in csv_file.rows(sweep))


def everything(sweeps: Sequence[Sweep]) -> str:
    """The rows of cells.csv and processes.csv."""
    cells = [cell for sweep in sweeps for cell in sweep.cells]
    return _json(
        {"cells": [row for sweep in sweeps for row in csv_file.rows(sweep)], "processes": [*process_rows(cells)]}
    )


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, allow_nan=False) + "\n"


FORMATS: dict[str, Callable[[Sequence[Sweep]], str]] = {
    "bencher": bencher,
    "github-action-benchmark": github,
    "pytorch": pytorch,
    "mlperf": mlperf,
    "csv": cells_csv,
    "json": everything,
}
