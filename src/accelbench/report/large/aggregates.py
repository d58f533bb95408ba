"""The mean of each cell's processes, as a file of all cells and as a table of the fastest ones."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from accelbench.report import csv_file
from accelbench.report.large.summaries import ABOUT, FIGURES, Summary
from accelbench.report.tables.table import Column, Entry, Table, count, number, tabulate_known, word
from accelbench.schema.record import Row
from accelbench.stats.means import Mean, common_means

MAX_ROWS = 200  # of the page's table
FILE = "aggregates.csv"


@dataclass(frozen=True, kw_only=True)
class Aggregate:
    """The processes of one cell on one machine with one software: its repeats and seeds in all sweeps.

    Attributes:
        workload_key: see `Summary`.
        about: see `Summary`.
        means: of the figures that all of its processes have, by name.
        num: of the processes.
    """

    workload_key: str
    about: tuple[str, ...]
    means: dict[str, Mean]
    num: int

    @property
    def rate(self) -> Mean:
        """Of the samples/s."""
        return self.means["samples_per_s"]


def aggregates(summaries: Sequence[Summary]) -> list[Aggregate]:
    """The means of the ok cells."""
    groups: dict[str, list[Summary]] = {}
    # A record may lie in two folders: where it was measured, and where it was merged.
    for each in {(each.name, each.started_at): each for each in summaries}.values():
        if each.cell_key is not None:
            groups.setdefault(each.cell_key, []).append(each)
    found = []
    for group in groups.values():
        means = common_means([dict(zip(FIGURES, each.figures, strict=True)) for each in group])
        first = group[0]
        key = first.workload_key or ""
        found.append(Aggregate(workload_key=key, about=first.about, means=means, num=len(group)))
    return found


def write(found: Sequence[Aggregate], folder: Path) -> None:
    """Writes all of them into `folder`."""
    rows: list[Row] = []
    for each in found:
        row: Row = {**dict(zip(ABOUT, each.about, strict=True)), "num_processes": each.num}
        for name in FIGURES:
            mean = each.means.get(name)
            row[name] = mean.mean if mean else None
            row[f"{name}_low"], row[f"{name}_high"] = (mean and mean.bounds_above_zero) or (None, None)
        rows.append(row)
    csv_file.write(rows, folder / FILE)


def table(found: Sequence[Aggregate]) -> Table | None:
    """The fastest cell of each workload and machine; None without any."""
    fastest: dict[str, Aggregate] = {}
    for each in found:
        known = fastest.get(each.workload_key)
        if known is None or each.rate.mean > known.rate.mean:
            fastest[each.workload_key] = each
    shown = list(fastest.values())[:MAX_ROWS]
    more = f" The first {MAX_ROWS} of {len(fastest):,} are shown." if len(fastest) > MAX_ROWS else ""
    notes = [
        f"Of all sweeps: for each machine and task, the cell with the highest mean samples/s of {len(found):,} cells."
        f"{more} ± is half of the 95 % interval of the mean of the processes (Student's t), unknown for one process. "
        f"{FILE} has every cell."
    ]
    about = [Column(name, _about(at)) for at, name in enumerate(ABOUT) if name != "suite"]
    columns: list[Column[Aggregate]] = [
        *about,
        Column("processes", lambda each: count(each.num)),
        Column("samples/s", lambda each: number(each.rate.mean)),
        Column("± (%)", _half_width),
        Column("p50 (ms)", lambda each: number(_mean(each, "latency_p50_ms"))),
        Column("J/sample", lambda each: number(_mean(each, "energy_j_per_sample"))),
    ]
    return tabulate_known("All sweeps: means of the processes", columns, shown, notes)


def _about(at: int) -> Callable[[Aggregate], Entry]:
    return lambda each: word(each.about[at])


def _mean(each: Aggregate, name: str) -> float | None:
    return each.means[name].mean if name in each.means else None


def _half_width(each: Aggregate) -> Entry:
    low, high = each.rate.low, each.rate.high
    return number(None if low is None or high is None else 50 * (high - low) / each.rate.mean, 2)
