"""Published numbers of a step beside ours of the same network, device, precision and batch."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from accelbench.presentation import exact
from accelbench.report import published
from accelbench.report.published import Published
from accelbench.report.read import ReportedCell, Sweep
from accelbench.report.tables.options import named
from accelbench.report.tables.study_times import one_of_each
from accelbench.report.tables.table import Entry, Table, count, number, word
from accelbench.schema.vocab import Mode


@dataclass(frozen=True)
class Metric:
    """What a published number is called, and what ours is made of; None where a cell does not know it."""

    title: str
    ours: Callable[[ReportedCell], float | None]
    note: str = "Ours is the median of steps waited for one by one."


def _time_per_image(planned: ReportedCell) -> float | None:
    latency = planned.number("latency_p50_ms")
    steps = planned.cell.keras.steps_per_execution if planned.cell.keras else 1  # a latency is of so many
    return None if latency is None else latency / (planned.cell.batch_size * steps)


def communication_percent(planned: ReportedCell) -> float | None:
    """Copying in and out in percent of a waited-for step; None where nothing is copied."""
    parts = [planned.number(column) for column in ("copy_in_ms", "copy_out_ms")]
    latency = planned.number("latency_p50_ms")
    if latency is None or all(part is None for part in parts):
        return None
    return 100 * sum(part or 0.0 for part in parts) / latency


METRICS: Mapping[str, Metric] = {
    "time_per_image": Metric("Time per image, end to end (ms)", _time_per_image),
    "latency": Metric("Time per batch (ms)", lambda planned: planned.number("latency_p50_ms")),
    "communication_share": Metric("Share of copying (%)", communication_percent),
    "peak_memory": Metric(
        "Memory of the device (MB)", lambda planned: planned.number("peak_device_mb"), "Ours is the allocator's peak."
    ),
}


# What the studies of random images fed their networks: another input is another measurement.
INPUT_SHAPES = {"000": (3, 224, 224), "003": (3, 64, 64)}


def table(sweep: Sweep, name: str) -> Table | None:
    """Ours and the published for each planned setting that was published, and for those that we have alone.

    None where the study published no such number.
    """
    metric = METRICS[name]
    entries = [entry for entry in published.load(sweep.study) if entry.metric == name]
    if not entries:
        return None
    cells = [planned for planned in sweep.cells if planned.cell.mode == Mode.infer]
    rows = []
    for planned in one_of_each(cells):
        value = metric.ours(planned) if planned.is_ok else None
        found: list[Published | None] = [entry for entry in entries if _is_of(entry, planned)]
        if value is None and not found:
            continue
        cell = planned.cell
        head = [word(cell.model.name), word(cell.device), word(cell.precision), count(cell.batch_size)]
        head += [word(named(planned.row))]
        ours = [number(value), word(None if planned.is_ok else planned.outcome)]
        for entry in found or [None]:
            theirs = [Entry(exact(entry.value), entry.value), word(entry.source)] if entry else [word(None)] * 2
            rows.append([*head, *ours, *theirs])
    headings = ["network", "device", "precision", "batch", "options", "ours", "why not", "published", "published by"]
    notes = [
        f"{metric.note} Published numbers are the study's own, on its machines: they stand beside ours and enter no "
        "statistics."
    ]
    return Table(title=metric.title, headings=headings, rows=rows, notes=notes).known() if rows else None


def _is_of(entry: Published, planned: ReportedCell) -> bool:
    cell = planned.cell
    wanted = (cell.model.name, cell.device, cell.precision)
    same = (entry.model, entry.device, entry.precision) == wanted and entry.batch_size in (None, cell.batch_size)
    same = same and not cell.options.enabled and cell.devices == 1  # no study had any
    return same and cell.model.input_shape == INPUT_SHAPES.get(entry.study, cell.model.input_shape)
