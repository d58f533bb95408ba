"""A step's published numbers and ours, of the same network, device, precision and batch."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from accelbench.report.read import ReportedCell, Sweep
from accelbench.report.tables.cell_columns import SETTINGS
from accelbench.report.tables.table import Column, Table, columns_of, number, tabulate_known, word
from accelbench.schema.vocab import Mode
from five_studies import published
from five_studies.comparison import one_per_setting
from five_studies.published import Published
from five_studies.times import published_entry


@dataclass(frozen=True)
class StepMetric:
    """A published number of a step.

    Attributes:
        title: of its table.
        ours: the same number of one of our cells; None if unknown.
        note: how ours is measured.
        unknown: why an ok cell has no such number.
    """

    title: str
    ours: Callable[[ReportedCell], float | None]
    note: str = "Ours is the median over steps that were each waited for."
    unknown: str = "its steps are so long that fewer than 6 were waited for one by one"


def _time_per_image(reported: ReportedCell) -> float | None:
    latency = reported.number("latency_p50_ms")
    num_batches = reported.cell.keras.steps_per_execution if reported.cell.keras else 1  # in one timed step
    return None if latency is None else latency / (reported.cell.batch_size * num_batches)


def communication_percent(reported: ReportedCell) -> float | None:
    """Copying in and out in percent of a waited-for step; None if nothing is copied."""
    parts = [reported.number(column) for column in ("copy_in_ms", "copy_out_ms")]
    latency = reported.number("latency_p50_ms")
    if latency is None or all(part is None for part in parts):
        return None
    return 100 * sum(part or 0.0 for part in parts) / latency


METRICS: Mapping[str, StepMetric] = {
    "time_per_image": StepMetric("Time per image, end to end (ms)", _time_per_image),
    "latency": StepMetric("Time per batch (ms)", lambda reported: reported.number("latency_p50_ms")),
    "communication_share": StepMetric(
        "Share of copying (%)", communication_percent, unknown="nothing is copied, or too few steps were waited for"
    ),
    "peak_memory": StepMetric(
        "Memory of the device (MB)",
        lambda reported: reported.number("peak_device_mb"),
        "Ours is the allocator's peak.",
        unknown="the device reports no peak",
    ),
}
# The input shapes of the studies of random images: numbers of another shape are not comparable.
INPUT_SHAPES = {"000": (3, 224, 224), "003": (3, 64, 64)}


@dataclass(frozen=True)
class _StepComparison:
    """Our number of a cell and a published one of the same settings; each None if unknown."""

    reported: ReportedCell
    ours: float | None
    published: Published | None
    unknown: str

    @property
    def why_not(self) -> str | None:
        """Why there is no number of ours; None if there is one."""
        if not self.reported.is_ok:
            return self.reported.outcome
        return self.unknown if self.ours is None else None


COLUMNS: list[Column[_StepComparison]] = [
    *columns_of(lambda compared: compared.reported, SETTINGS, "network", "device", "precision", "batch", "options"),
    Column("ours", lambda compared: number(compared.ours)),
    Column("why not", lambda compared: word(compared.why_not)),
    Column("published", lambda compared: published_entry(compared.published)),
    Column("published by", lambda compared: word(compared.published.source if compared.published else None)),
]


def table(sweep: Sweep, name: str) -> Table | None:
    """Our cells with the published number of their settings, and our cells that have no published one.

    None if the study published no such number.

    Args:
        sweep: inference cells.
        name: of `METRICS`.
    """
    metric = METRICS[name]
    entries = [entry for entry in published.load(sweep.study) if entry.metric == name]
    if not entries:
        return None
    notes = [
        f"{metric.note} Published numbers were measured by the study, on its machines; they enter none of our "
        "statistics."
    ]
    return tabulate_known(metric.title, COLUMNS, _comparisons(sweep, metric, entries), notes)


def _comparisons(sweep: Sweep, metric: StepMetric, entries: list[Published]) -> Iterator[_StepComparison]:
    for reported in one_per_setting(reported for reported in sweep.cells if reported.cell.mode == Mode.infer):
        value = metric.ours(reported) if reported.is_ok else None
        same: list[Published | None] = [entry for entry in entries if has_same_settings(entry, reported)]
        if value is not None or same:
            yield from (_StepComparison(reported, value, entry, metric.unknown) for entry in same or [None])


def has_same_settings(entry: Published, reported: ReportedCell) -> bool:
    """Whether a published number is of the settings of one of our cells."""
    cell = reported.cell
    wanted = (cell.model.name, cell.device, cell.precision)
    same = (entry.model, entry.device, entry.precision) == wanted and entry.batch_size in (None, cell.batch_size)
    same = same and not cell.options.enabled and cell.devices == 1  # no study used options or several devices
    return same and cell.model.input_shape == INPUT_SHAPES.get(entry.study, cell.model.input_shape)
