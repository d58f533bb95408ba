"""The rows of cells.csv and processes.csv, and published numbers in the formats of other tools.

Sources of the formats:
- Bencher's metric format: https://bencher.dev/docs/reference/bencher-metric-format/
- github-action-benchmark's `customBiggerIsBetter`: https://github.com/benchmark-action/github-action-benchmark
- PyTorch's records: https://github.com/pytorch/pytorch/wiki/How-to-integrate-with-PyTorch-OSS-benchmark-database
"""

import csv
import io
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from accelbench.answers.cells import MeasuredCell, process_rows
from accelbench.answers.time_to_goal import target_answers
from accelbench.judging.row import warnings_of
from accelbench.presentation import counted, significant
from accelbench.report.read import Sweep, cells_in
from accelbench.schema.cell import SHARE_ONE_CPU, Device, Mode, Scaling
from accelbench.schema.record import Row
from accelbench.schema.serialize import digest

if TYPE_CHECKING:
    import pandas as pd

EFFICIENCY = "scaling_efficiency"  # the last column of cells.csv
MODES = {Mode.train: "training", Mode.infer: "inference", Mode.generate: "generation"}
MAX_NAME = 1024 - 9  # characters of a benchmark's name in Bencher; 9 are for a dash and a part of a key


class Metric(NamedTuple):
    """A number of a cell."""

    name: str  # in lower case with dashes, as Bencher's slugs
    column: str  # its column; the columns of its 95 % interval add `_low` and `_high`, if they exist
    unit: str


THROUGHPUT = Metric("throughput", "samples_per_s", "samples/s")
TO_TARGET = Metric("time-to-target-s", "target_s", "s")  # the median of all seeds
METRICS = (
    THROUGHPUT,
    *(Metric(f"latency-{name}-ms", f"latency_{name}_ms", "ms") for name in ("p50", "p90", "p99")),
    Metric("requests", "requests_per_s", "requests/s"),
    Metric("request-p99-ms", "request_p99_ms", "ms"),
    Metric("energy-j-per-sample", "energy_j_per_sample", "J/sample"),
    Metric("peak-device-mb", "peak_device_mb", "MB"),
)


class Published(NamedTuple):
    """A number that is published."""

    benchmark: str  # the cell, with its sweep
    metric: Metric
    value: float
    low: float | None  # lower end of the 95 % interval; None if unknown
    high: float | None
    raw: list[float]  # the number of each process that counts
    cell: MeasuredCell


def published(sweeps: Iterable[Sweep]) -> list[Published]:
    """Returns the numbers of all ok cells, without the cells of a search for the highest rate (`best --serve`).

    For a training to a target, the only number is the time to the target.
    """
    cells = [cell for cell in cells_in(sweeps) if cell.is_ok and not (cell.record and cell.record.of_search)]
    names = _names(cells)
    found = []
    for cell in cells:
        processes = cell.counted or [process for process in cell.processes if process.is_ok]
        for metric in METRICS:
            value = cell.number(metric.column)
            if value is not None:
                low, high = (cell.row.get(f"{metric.column}_{end}") for end in ("low", "high"))
                raw = [process.number(metric.column) for process in processes]
                known = [number for number in raw if number is not None]
                found.append(Published(names[id(cell)], metric, value, low, high, known, cell))
    for answer in target_answers(cells):
        for setting in answer.settings:
            # A setting has a time only if all its seeds reached the target.
            if not setting.refused and not setting.missing and setting.num_arrived == len(setting.runs):
                low, high = setting.interval or (None, None)
                name = names[id(setting.cell)]
                found.append(
                    Published(name, TO_TARGET, setting.median_s, low, high, setting.times, setting.cell)
                )
    return found


def _names(cells: Sequence[MeasuredCell]) -> dict[int, str]:
    """Maps a cell's `id` to its name without seed and repeat. If names are equal, a part of the cell's key is added."""
    names = {}
    for cell in cells:
        names[id(cell)] = f"{cell.folder}/{replace(cell.cell, seed=0, repeat=0).label}"[:MAX_NAME]
    nums = Counter(names.values())
    for cell in cells:
        if nums[names[id(cell)]] > 1:
            names[id(cell)] += f"-{cell.measured_key[:8]}"
    return names


def bencher(numbers: Sequence[Published]) -> str:
    """A mapping of benchmarks, each with its metrics."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for number in numbers:
        bounds = {"lower_value": number.low, "upper_value": number.high}
        known = {name: value for name, value in bounds.items() if value is not None}
        found.setdefault(number.benchmark, {})[number.metric.name] = {"value": number.value} | known
    return _json(found)


def github(numbers: Sequence[Published]) -> str:
    """Exports only speeds. In this format, bigger is better for all numbers in a file, or smaller is better for all."""
    found = []
    for number in numbers:
        if number.metric != THROUGHPUT:
            continue
        entry = {"name": number.benchmark, "unit": number.metric.unit, "value": number.value}
        if number.low is not None and number.high is not None:
            entry["range"] = f"{significant(number.low)} to {significant(number.high)}"
        found.append(
            entry | {"extra": "; ".join([counted(len(number.raw), "process"), *warnings_of(number.cell.row)])}
        )
    return _json(found)


def pytorch(numbers: Sequence[Published]) -> str:
    """Makes an entry for each number. `benchmark_values` has the number of each process that counts."""
    found = []
    for number in numbers:
        cell = number.cell.cell
        metric = number.metric
        extra = {"device": cell.device, "arch": number.cell.row["device_name"], "batch_size": cell.batch_size}
        extra |= {"devices": cell.devices, "protocol": cell.protocol}
        if doubts := warnings_of(number.cell.row):
            extra["doubts"] = doubts
        found.append(
            {
                "benchmark": {
                    "name": number.benchmark,
                    "mode": MODES[cell.mode],
                    "dtype": cell.precision,
                    "extra_info": extra,
                },
                "model": {
                    "name": cell.model.name,
                    "type": cell.model.library,
                    "backend": cell.engine,
                },
                "metric": {
                    "name": metric.name,
                    "benchmark_values": number.raw,
                    "extra_info": {
                        "unit": metric.unit,
                        "value": number.value,
                        "low": number.low,
                        "high": number.high,
                    },
                },
            }
        )
    return _json(found)


def cell_rows(sweeps: Iterable[Sweep]) -> Iterator[Row]:
    """Yields the rows of `cells.csv`. Each row has the scaling efficiency of its cell.

    The efficiency is None for a cell on a single device, and if no comparable cell of its sweep ran on a single device.
    """
    for sweep in sweeps:
        ok = [cell for cell in sweep.cells if cell.speed]
        singles = {_key(cell, cell.cell.batch_size): cell for cell in ok if cell.cell.devices == 1}
        efficiency: dict[str, float] = {}
        for cell in ok:
            of = cell.cell
            # If devices share the threads of a process, no cell on one device has comparable threads.
            if of.devices > 1 and not (of.device in SHARE_ONE_CPU and of.num_processes == 1):
                batch_size = of.batch_size if of.scaling == Scaling.strong else of.batch_size_per_device
                if (single := singles.get(_key(cell, batch_size))) is not None:
                    efficiency[cell.name] = (cell.speed or 0.0) / (single.speed or 1.0) / of.devices
        for cell in sweep.cells:
            yield cell.row | {EFFICIENCY: efficiency.get(cell.name)}


def _key(cell: MeasuredCell, batch_size: int) -> str:
    """Returns a key. A cell on several devices has the same key as its counterpart on one device."""
    settings = cell.all_but("devices", "xla_processes", "scaling", "batch_size", "threads")
    threads = cell.row["threads"] if cell.cell.device == Device.cpu else cell.cell.threads
    return digest([settings, batch_size, threads])


# A spreadsheet takes text that begins with one of these for a formula. An apostrophe before the text prevents this.
FORMULA = ("=", "+", "-", "@", "\t", "\r")


def csv_text(rows: Iterable[Row]) -> str:
    """Converts rows with equal columns to CSV with a heading. Unknown values are empty. Keeps no row in memory."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    for number, row in enumerate(rows):
        if not number:
            writer.writerow(row)
        values = row.values()
        writer.writerow(
            [f"'{each}" if isinstance(each, str) and each.startswith(FORMULA) else each for each in values]
        )
    return file.getvalue()


def frame(rows: Iterable[Row]) -> "pd.DataFrame":
    """Converts rows with equal columns to a data frame. An unknown number is NaN, any other unknown value is None."""
    import pandas as pd  # imported here, since it takes half a second

    return pd.DataFrame(list(rows))


def tables(sweeps: Sequence[Sweep]) -> dict[str, Iterator[Row]]:
    """Maps the names cells.csv and processes.csv to their rows."""
    return {"cells.csv": cell_rows(sweeps), "processes.csv": process_rows(cells_in(sweeps))}


def everything(sweeps: Sequence[Sweep]) -> str:
    """The rows of cells.csv and processes.csv."""
    return _json({name.removesuffix(".csv"): list(rows) for name, rows in tables(sweeps).items()})


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, allow_nan=False) + "\n"


OF_NUMBERS = {"bencher": bencher, "github-action-benchmark": github, "pytorch": pytorch}
# csv: the report's cells.csv, with a row for every cell, also for cells without numbers.
OF_SWEEPS = {"csv": lambda sweeps: csv_text(cell_rows(sweeps)), "json": everything}


def exported(name: str, sweeps: Sequence[Sweep]) -> str:
    """Returns the results in the format `name`."""
    if name in OF_SWEEPS:
        return OF_SWEEPS[name](sweeps)
    return OF_NUMBERS[name](published(sweeps))
