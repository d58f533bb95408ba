"""How busy, hot and hungry the devices were: utilisation, power, temperature and clock, ours and the published."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from accelbench.report.read import ReportedCell, Sweep
from accelbench.report.tables.cell_columns import SETTINGS
from accelbench.report.tables.table import Column, Table, columns_of, number, tabulate_known, word
from accelbench.schema.vocab import Device
from five_studies import published
from five_studies.comparison import one_per_setting
from five_studies.published import Published
from five_studies.steps import has_same_settings

PUBLISHED = ("utilization", "power", "temperature")  # metrics of study 000
NOTES = [
    "Ours: means over the steady state, of the GPU that computes, as its driver reports them 2 to 10 times a second. "
    "Of a CPU: the processor time of the cell's processes, in percent of all cores that it may use.",
    "Published: read once after each run; of a GPU the mean over three, of which one was used.",
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
