"""Published numbers of a step beside ours, for equal network, device, precision and batch; and the load of devices."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from accelbench.answers.cells import MeasuredCell
from accelbench.answers.words import options_text
from accelbench.report.read import Sweep
from accelbench.report.table import Column, Table, columns_of, count, number, tabulate_known
from accelbench.schema.cell import Device, Mode
from five_studies import published
from five_studies.comparison import one_per_setting
from five_studies.published import Published

SETTINGS: list[Column[MeasuredCell]] = [
    Column("network", lambda reported: reported.cell.model.name),
    Column("mode", lambda reported: reported.cell.mode),
    Column("device", lambda reported: reported.cell.device),
    Column("precision", lambda reported: reported.cell.precision),
    Column("batch", lambda reported: reported.cell.batch_size, count),
    Column("options", lambda reported: options_text(reported.row)),
]
# The input shapes of the studies with random images. Numbers of another shape are not comparable.
INPUT_SHAPES = {"000": (3, 224, 224), "003": (3, 64, 64)}


class StepMetric(NamedTuple):
    """A kind of published number of a step: the title of its table, and the same number of our cells."""

    title: str
    ours: Callable[[MeasuredCell], float | None]
    note: str = (
        "Ours is the median of single steps, with a wait for the device after each step. If fewer than 6 such steps "
        "were timed, it is computed from samples/s, which are of steps without waits."
    )
    from_rate: Callable[[MeasuredCell, float], float] | None = None  # from samples/s, for few single steps


def _time_per_image(reported: MeasuredCell) -> float | None:
    latency = reported.number("latency_p50_ms")
    num_batches = reported.cell.keras.steps_per_execution if reported.cell.keras else 1  # batches in one timed step
    return None if latency is None else latency / (reported.cell.batch_size * num_batches)


def copying_ms(reported: MeasuredCell) -> float | None:
    """Milliseconds to copy to the device and back, per step. None if nothing is copied."""
    known = [value for column in ("copy_in_ms", "copy_out_ms") if (value := reported.number(column)) is not None]
    return sum(known) if known else None


def communication_percent(reported: MeasuredCell) -> float | None:
    """The time of copying in and out, in percent of a single step with a wait. None if nothing is copied."""
    copying = copying_ms(reported)
    latency = reported.number("latency_p50_ms")
    return None if latency is None or copying is None else 100 * copying / latency


METRICS: Mapping[str, StepMetric] = {
    "time_per_image": StepMetric(
        "Time per image, end to end (ms)", _time_per_image, from_rate=lambda reported, rate: 1e3 / rate
    ),
    "latency": StepMetric(
        "Time per batch (ms)",
        lambda reported: reported.number("latency_p50_ms"),
        from_rate=lambda reported, rate: 1e3 * reported.cell.batch_size / rate,
    ),
    "communication_share": StepMetric(
        "Share of copying (%)",
        communication_percent,
        "Ours is the median of single steps, with a wait for the device after each step.",
    ),
    "peak_memory": StepMetric(
        "Memory of the device (MB)",
        lambda reported: reported.number("peak_device_mb"),
        "Ours is the allocator's peak in the cell's own process. Study 000 ran all its cells in one process and never "
        "reset the peak. So only its cells that raised the peak are shown.",
    ),
}


class Line(NamedTuple):
    """One of our cells, and one published number for its settings, if there is any."""

    reported: MeasuredCell
    value: float | None
    source: str | None  # source of our value, if the metric has two sources
    published: Published | None


def lines(sweep: Sweep, name: str) -> list[Line]:
    """A line for each of our cells and each published number for the cell's settings.

    If there is no such number, the cell has one line without a published number. Empty if the study published no number
    of this name. `name`: one of `METRICS`.
    """
    entries = [entry for entry in published.load(sweep.study) if entry.metric == name]
    found: list[Line] = []
    for reported in one_per_setting(each for each in sweep.cells if entries and each.cell.mode == Mode.infer):
        value, source = _ours(METRICS[name], reported)
        same: list[Published | None] = [entry for entry in entries if has_same_settings(entry, reported)]
        found += [Line(reported, value, source, each) for each in same or ([None] if value is not None else [])]
    return found


def table(sweep: Sweep, name: str) -> Table | None:
    """The `lines` as a table. None if there are no lines."""
    metric = METRICS[name]
    columns: list[Column[Line]] = [
        *columns_of(lambda line: line.reported, [each for each in SETTINGS if each.heading != "mode"]),
        Column("ours", lambda line: line.value, number),
        Column("ours: from", lambda line: line.source),
        Column("published", lambda line: published.entry(line.published)),
        Column("published by", lambda line: line.published and line.published.source),
    ]
    notes = [
        f"{metric.note} A dash: the cell did not run, its device does not measure this, or it ran too few steps. "
        "The study measured the published numbers on its machines. They enter none of our statistics."
    ]
    return tabulate_known(metric.title, columns, lines(sweep, name), notes)


def _ours(metric: StepMetric, reported: MeasuredCell) -> tuple[float | None, str | None]:
    """Our value and its source: single steps, or if there are too few, the cell's samples/s."""
    value = metric.ours(reported) if reported.is_ok else None
    if metric.from_rate is None or not reported.is_ok:
        return value, None
    if value is None and reported.speed:
        return metric.from_rate(reported, reported.speed), "samples/s"
    return value, "single steps" if value is not None else None


def has_same_settings(entry: Published, reported: MeasuredCell) -> bool:
    """Whether a published number was measured with the settings of one of our cells."""
    cell = reported.cell
    wanted = (cell.model.name, cell.device, cell.precision)
    same = (entry.model, entry.device, entry.precision) == wanted and entry.batch_size in (None, cell.batch_size)
    same = same and not cell.options.enabled and cell.devices == 1  # no study used options or several devices
    return same and cell.model.input_shape == INPUT_SHAPES.get(entry.study, cell.model.input_shape)


LOAD_NOTES = [
    "Ours: means over the steady state. For a GPU: of the one that computes, by its driver, 2 to 10 times a second. "
    "For a CPU: the processor time of the cell's processes, in percent of all cores that they may use.",
    "Published: read once after each run. For a GPU: the mean over three GPUs, though only one was used.",
]
# One of our ok cells, and the numbers that one source published for its settings: metric -> number.
Load = tuple[MeasuredCell, Mapping[str, Published]]


def utilisation_percent(reported: MeasuredCell) -> float | None:
    """The utilisation of the GPU, or of all usable cores of the CPU, in percent. None if unknown."""
    if reported.cell.device == Device.gpu:
        return reported.number("gpu_utilization_percent")
    if reported.cell.device != Device.cpu or reported.record is None:
        return None
    of_one_core = reported.number("cpu_utilization_percent")
    num_cores = reported.record.environment.get("machine", {}).get("num_threads")
    return of_one_core / num_cores if of_one_core is not None and num_cores else None


def _theirs(metric: str) -> Callable[[Load], float | None]:
    return lambda load: load[1][metric].value if metric in load[1] else None


LOADS: list[Column[Load]] = [
    Column("utilisation (%)", lambda load: utilisation_percent(load[0]), number),
    Column("published: utilisation (%)", _theirs("utilization"), number),
    Column("power (W)", lambda load: load[0].row["gpu_power_w"], number),
    Column("published: power (W)", _theirs("power"), number),
    Column("temperature (°C)", lambda load: load[0].row["gpu_temperature_c"], number),
    Column("published: temperature (°C)", _theirs("temperature"), number),
    Column("clock (MHz)", lambda load: number(load[0].row["gpu_clock_mhz"], 4)),
    Column("published by", lambda load: next((entry.source for entry in load[1].values()), None)),
]


def load_table(sweep: Sweep) -> Table | None:
    """The load of each ok cell's device beside the published load. None if the study published no load."""
    metrics = ("utilization", "power", "temperature")
    entries = [entry for entry in published.load(sweep.study) if entry.metric in metrics]
    ok = one_per_setting(reported for reported in sweep.cells if reported.is_ok)
    loads = [load for reported in ok for load in _loads(reported, entries)] if entries else []
    columns = [*columns_of(lambda load: load[0], SETTINGS), *LOADS]
    return tabulate_known("Utilisation, power, temperature and clock", columns, loads, LOAD_NOTES)


def _loads(reported: MeasuredCell, entries: list[Published]) -> Iterator[Load]:
    """Yields the cell with the numbers of each source; once without numbers if there is no source."""
    by_source: dict[str, dict[str, Published]] = defaultdict(dict)
    for entry in entries:
        if has_same_settings(entry, reported):
            by_source[entry.source][entry.metric] = entry
    for theirs in list(by_source.values()) or [{}]:
        if theirs or any(column.entry((reported, theirs)).key is not None for column in LOADS):
            yield reported, theirs
