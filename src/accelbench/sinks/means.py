"""The means of a cell's processes, which a tracker shows as one more run, marked as no measurement."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from accelbench.judging.row import summarise
from accelbench.schema.record import Record, number_of
from accelbench.schema.serialize import canonical_json, digest
from accelbench.schema.vocab import Status
from accelbench.stats.means import common_means

NUM = "mean/num_processes"
# Metric -> column of cells.csv. The names differ from a measurement's, so that no chart mixes them.
METRICS = {
    "mean/samples_per_s": "samples_per_s",
    "mean/latency_p50_ms": "latency_p50_ms",
    "mean/energy_j_per_sample": "energy_j_per_sample",
}


@dataclass(frozen=True, kw_only=True)
class Process:
    """What the mean needs of one ok record.

    Attributes:
        key: equal for the repeats and seeds of a cell on one machine with one software.
        start_s, end_s: since 1970, UTC, by the clock of the machine that measured it.
        figures: by metric, as far as they are known.
        params: the settings that all of these processes share, for people.
    """

    suite: str
    key: str
    name: str
    start_s: float
    end_s: float
    figures: dict[str, float]
    params: dict[str, str]

    @classmethod
    def of(cls, record: Record) -> "Process | None":
        """The process of an ok record with a throughput; None for another one."""
        row = summarise(record)
        if record.status != Status.ok or row["samples_per_s"] is None:
            return None
        known = {metric: number_of(row, column) for metric, column in METRICS.items()}
        start_s = datetime.fromisoformat(record.started_at).timestamp()
        shown = ("model", "mode", "data", "device", "precision", "batch_size", "engine", "protocol")
        return cls(
            suite=record.cell.suite,
            key=cell_key(record),
            name="-".join(str(row[name]) for name in ("model", "device", "precision")) + f"-b{row['batch_size']}",
            start_s=start_s,
            end_s=start_s + record.wall_s,
            figures={metric: value for metric, value in known.items() if value is not None},
            params={name: str(row[name]) for name in shown if row[name] is not None},
        )


@dataclass(frozen=True, kw_only=True)
class CellMean:
    """The mean of at least two processes of a cell.

    Attributes:
        metrics: means, and `NUM`; with the bounds of their 95 % intervals (`..._low`, `..._high`) unless these reach 0.
        others: see `Process`.
    """

    suite: str
    key: str
    name: str
    start_s: float
    end_s: float
    metrics: dict[str, float]
    params: dict[str, str]

    @property
    def num(self) -> int:
        """Of the processes."""
        return round(self.metrics[NUM])


def cell_key(record: Record) -> str:
    """Equal for the repeats and seeds of a cell on one machine, with one software, code and data."""
    settings = record.cell.settings() | {"repeat": None, "seed": None}
    environment = [record.environment.get(name) for name in ("machine", "versions", "variables", "code")]
    return digest(canonical_json([settings, record.data.digest if record.data else None, environment]))[:32]


def cell_means(processes: Iterable[Process | None]) -> list[CellMean]:
    """The means of the cells with at least two processes."""
    groups: dict[tuple[str, str], list[Process]] = {}
    for each in processes:
        if each is not None:
            groups.setdefault((each.suite, each.key), []).append(each)
    return [_mean(group) for group in groups.values() if len(group) > 1]


def _mean(group: list[Process]) -> CellMean:
    metrics: dict[str, float] = {NUM: len(group)}
    for metric, mean in common_means([each.figures for each in group]).items():
        metrics[metric] = mean.mean
        if mean.bounds_above_zero:
            metrics[f"{metric}_low"], metrics[f"{metric}_high"] = mean.bounds_above_zero
    return CellMean(
        suite=group[0].suite,
        key=group[0].key,
        name=f"mean of {group[0].name}",
        start_s=min(each.start_s for each in group),
        end_s=max(each.end_s for each in group),
        metrics=metrics,
        params=group[0].params,
    )
