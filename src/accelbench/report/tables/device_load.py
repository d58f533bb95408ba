"""How busy, hot and hungry the devices were: utilisation, power, temperature and clock, ours and the published."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from accelbench.report import published
from accelbench.report.published import Published
from accelbench.report.read import ReportedCell, Sweep
from accelbench.report.study_comparison import one_per_setting
from accelbench.report.tables.cell_columns import SETTINGS
from accelbench.report.tables.options import options_text
from accelbench.report.tables.study_steps import has_same_settings
from accelbench.report.tables.table import Column, Table, columns_of, count, number, tabulate_known, word
from accelbench.schema.vocab import Device, Precision

PUBLISHED = ("utilization", "power", "temperature")  # metrics of study 000
NOTES = [
    "Ours: means over the steady state, of the GPU that computes, as its driver reports them 2 to 10 times a second. "
    "Of a CPU: the processor time of the cell's processes, in percent of all cores that it may use.",
    "Published: read once after each run; of a GPU the mean over three, of which one was used.",
]
RATIO_NOTES = [
    "The mean power of the cells on the right over that of the cells on the left, which are equal otherwise. "
    "Published: the same from the study's raw data, whose means are over three GPUs, of which one was used."
]


@dataclass(frozen=True)
class _Load:
    """One of our ok cells, and what was published of its settings by one source."""

    reported: ReportedCell
    theirs: Mapping[str, Published]

    def published(self, metric: str) -> float | None:
        """The published number; None if the source has no such number."""
        return self.theirs[metric].value if metric in self.theirs else None


COLUMNS: list[Column[_Load]] = [
    *columns_of(lambda load: load.reported, SETTINGS, "network", "mode", "device", "precision", "batch", "options"),
    Column("utilisation (%)", lambda load: number(utilisation_percent(load.reported))),
    Column("published: utilisation (%)", lambda load: number(load.published("utilization"))),
    Column("power (W)", lambda load: number(load.reported.row["gpu_power_w"])),
    Column("published: power (W)", lambda load: number(load.published("power"))),
    Column("temperature (°C)", lambda load: number(load.reported.row["gpu_temperature_c"])),
    Column("published: temperature (°C)", lambda load: number(load.published("temperature"))),
    Column("clock (MHz)", lambda load: number(load.reported.row["gpu_clock_mhz"], 4)),
    Column("published by", lambda load: word(next((entry.source for entry in load.theirs.values()), None))),
]


def utilisation_percent(reported: ReportedCell) -> float | None:
    """How busy the cell's device was: the GPU, or all usable cores of the CPU; None if unknown."""
    if reported.cell.device == Device.gpu:
        return reported.number("gpu_utilization_percent")
    if reported.cell.device != Device.cpu or reported.record is None:
        return None
    of_one_core = reported.number("cpu_utilization_percent")
    num_cores = reported.record.environment.get("machine", {}).get("num_threads")
    return of_one_core / num_cores if of_one_core is not None and num_cores else None


def table(sweep: Sweep) -> Table | None:
    """The load of each ok cell's device beside the published; None if the study published none."""
    entries = [entry for entry in published.load(sweep.study) if entry.metric in PUBLISHED]
    ok = one_per_setting(reported for reported in sweep.cells if reported.is_ok)
    loads = [load for reported in ok for load in _loads(reported, entries)] if entries else []
    return tabulate_known("Utilisation, power, temperature and clock", COLUMNS, loads, NOTES)


def _loads(reported: ReportedCell, entries: Iterable[Published]) -> Iterator[_Load]:
    """The cell with each source's numbers; the cell alone if there is no source."""
    by_source: dict[str, dict[str, Published]] = defaultdict(dict)
    for entry in entries:
        if has_same_settings(entry, reported):
            by_source[entry.source][entry.metric] = entry
    for theirs in list(by_source.values()) or [{}]:
        load = _Load(reported, theirs)
        if theirs or any(column.entry(load).key is not None for column in COLUMNS[6:]):
            yield load


@dataclass(frozen=True)
class _PowerRatio:
    """The power of a GPU with one value of a setting over that with another, means over equal cells."""

    setting: str
    left: str
    right: str
    ours: float | None
    num_ours: int
    theirs: float | None
    num_theirs: int


RATIO_COLUMNS: list[Column[_PowerRatio]] = [
    Column("setting", lambda ratio: word(ratio.setting)),
    Column("from", lambda ratio: word(ratio.left)),
    Column("to", lambda ratio: word(ratio.right)),
    Column("ours (x)", lambda ratio: number(ratio.ours)),
    Column("ours: cells", lambda ratio: count(ratio.num_ours or None)),
    Column("published (x)", lambda ratio: number(ratio.theirs)),
    Column("published: cells", lambda ratio: count(ratio.num_theirs or None)),
]

# Settings of a point: its network, precision and batch.
Point = tuple[str, Precision, int]
# The place of a setting in a point, and the values that the study compares. Its float32 on the GPU is TF32.
COMPARED: Mapping[str, tuple[int, Sequence[tuple[Precision | int, Precision | int]]]] = {
    "batch": (2, [(16, 32), (32, 64)]),
    "precision": (
        1,
        [(Precision.fp16, Precision.bf16), (Precision.fp16, Precision.tf32), (Precision.tf32, Precision.fp64)],
    ),
}


def power_ratios(sweep: Sweep) -> Table | None:
    """How a GPU's power grows with batch and precision, ours and the published; None if nothing was published."""
    theirs = {
        (entry.model, entry.precision, entry.batch_size): entry.value
        for entry in published.load(sweep.study)
        if entry.metric == "power" and entry.batch_size is not None
    }
    if not theirs:
        return None
    ours = {
        (reported.cell.model.name, reported.cell.precision, reported.cell.batch_size): power
        for reported in one_per_setting(reported for reported in sweep.cells if reported.is_ok)
        if (power := reported.number("gpu_power_w")) is not None and not options_text(reported.row)
    }
    ratios = [
        _PowerRatio(
            setting, str(left), str(right), *_ratio(ours, place, left, right), *_ratio(theirs, place, left, right)
        )
        for setting, (place, compared) in COMPARED.items()
        for left, right in compared
    ]
    return tabulate_known("A GPU's power by batch and precision", RATIO_COLUMNS, ratios, RATIO_NOTES)


def _ratio(powers: Mapping[Point, float], place: int, left: object, right: object) -> tuple[float | None, int]:
    """The ratio of the means over what both values were measured with, and the number of such pairs."""
    sides: dict[object, dict[object, float]] = {left: {}, right: {}}
    for point, power in powers.items():
        if point[place] in sides:
            sides[point[place]][point[:place] + point[place + 1 :]] = power
    both = sides[left].keys() & sides[right].keys()
    if not both:
        return None, 0
    return fmean(sides[right][rest] for rest in both) / fmean(sides[left][rest] for rest in both), len(both)
