"""The published numbers of the studies, and the errors in them."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import Any

import yaml

from accelbench.presentation import counted, exact
from accelbench.report.table import Column, Entry, Table, count, tabulate, tabulate_known
from accelbench.schema.cell import Engine, Precision
from five_studies import raw

FOLDER = Path(__file__).parent


@dataclass(frozen=True, kw_only=True)
class Published:
    """One published number.

    Attributes:
        device: None if the source does not say.
        model: the network; `all` for a mean over all networks of the study.
        batch_size: None if the source does not say.
        metric: `train_time`, `test_time` (s), `accuracy` (of the test set), `train_accuracy` (of the last epoch; %),
            `loss` (of training), `validation_loss`, `epochs`, `train_samples`, `test_samples` (of one pass), `devices`
            (number of devices; by default 1), `one_epoch_time` (s), `time_per_image`, `latency` (ms),
            `communication_share` (%), `peak_memory` (MB), `utilization` (%), `power` (W), `temperature` (°C);
            `speedup_over_<device>` (x), or its bounds with the prefixes `low_` and `high_`; `optimal_batch`,
            `max_batch`.
        assumed: the field that the source does not state: `batch_size`, `metric` or `value`; None: it states all.
        source: where the number was published.
    """

    study: str
    device: str | None
    model: str
    precision: Precision
    batch_size: int | None
    metric: str
    value: float
    unit: str
    assumed: str | None
    source: str


@cache
def load(study: str | None) -> tuple[Published, ...]:
    """The numbers of `study`, in the order of its tables. Empty for a study without numbers in published.csv."""
    with (FOLDER / "published.csv").open(encoding="utf-8") as file:
        rows: list[dict[str, Any]] = [row for row in csv.DictReader(file) if row["study"] == study]
    rows += raw.numbers() if study == raw.STUDY else []
    for row in rows:
        row |= {"precision": Precision(row["precision"]), "value": float(row["value"])}
        row |= {"device": row["device"] or None, "assumed": row["assumed"] or None}
        row["batch_size"] = int(row["batch_size"]) if row["batch_size"] else None
    return tuple(Published(**row) for row in rows)


def find(study: str | None, model: str, metric: str, device: str | None) -> Published | None:
    """The published number. None if the study has no such number."""
    wanted = (model, metric, device)
    return next((entry for entry in load(study) if (entry.model, entry.metric, entry.device) == wanted), None)


def entry(number: Published | None) -> Entry:
    """A published number with all its published digits."""
    value = number.value if number else None
    return Entry(exact(value), value)


# The metrics that are times. If nothing was measured here, a report shows these and the speed-ups.
TIMES = ("train_time", "test_time", "one_epoch_time", "time_per_image", "latency")
MANY = 100  # if there are more numbers, only those in float32 with the smallest batch are shown


def table(numbers: Sequence[Published]) -> Table | None:
    """A table of the times and speed-ups among a study's numbers. None if there are none."""
    known = [each for each in numbers if each.metric in TIMES or "speedup" in each.metric]
    if len(known) > MANY:
        least = min(each.batch_size for each in known if each.batch_size)
        precisions = (Precision.fp32, Precision.tf32)  # on a GPU, a study's float32 may be TF32
        known = [each for each in known if each.precision in precisions and each.batch_size in (None, least)]
    columns: list[Column[Published]] = [
        Column("network", lambda each: each.model),
        Column("device", lambda each: each.device),
        Column("precision", lambda each: each.precision),
        Column("batch", lambda each: each.batch_size, count),
        Column("what", lambda each: each.metric.replace("_", " ")),
        Column("published", entry),
        Column("unit", lambda each: each.unit),
        Column("published by", lambda each: each.source),
    ]
    return tabulate_known("Published, and not measured here", columns, known)


Line = Sequence[object]  # a line of a table: entries, or values that `word` turns into entries


def by_place(*headings: str) -> list[Column[Line]]:
    """Columns for lines whose entries have the order of these headings."""
    return [Column(heading, itemgetter(place)) for place, heading in enumerate(headings)]


def mark(number: Published, what: str) -> str:
    """` (assumed)` if the source does not state the field `what`, else empty."""
    return " (assumed)" if number.assumed == what else ""


def epochs_text(study: str | None, model: str) -> str:
    """The epochs for which a study trained a network, such as `, 5 epochs`. Empty if the study does not state them."""
    epochs = find(study, model, "epochs", None)
    return f", {counted(int(epochs.value), 'epoch')}{mark(epochs, 'value')}" if epochs else ""


class Remedy(StrEnum):
    """The way in which accelbench prevents a false number."""

    impossible = "impossible"
    invalid = "invalid"
    shown = "shown"


@dataclass(frozen=True, kw_only=True)
class KnownError:
    """An error of a study that made a number false, the place where it shows, accelbench's remedy, and its test."""

    study: str
    done: str
    seen: str
    here: Remedy
    how: str
    test: str


@cache
def studies() -> dict[str, Any]:
    """The contents of studies.yaml: number of a study -> its name, caveats and errors."""
    found: dict[str, Any] = yaml.safe_load((FOLDER / "studies.yaml").read_text(encoding="utf-8"))
    return found


def framework(study: str | None) -> Engine | None:
    """Our engine for the study's own framework. None if we have no such engine, or if the study has no whole job."""
    name = studies().get(study or "", {}).get("framework")
    return Engine(name) if name else None


def devices(study: str | None) -> list[tuple[str, str, str]]:
    """The devices of a study. Each has its value of the setting `device`, its name, and known details."""
    return [(each["device"], each["name"], each["has"]) for each in studies().get(study or "", {}).get("devices", [])]


def caveats(study: str | None) -> list[str]:
    """Sentences to read before comparing with a study's numbers."""
    return list(studies().get(study or "", {}).get("caveats", []))


def known_errors() -> list[KnownError]:
    """The errors of the five studies, in the order of the studies."""
    return [
        KnownError(study=number, **error | {"here": Remedy(error["here"])})
        for number, study in studies().items()
        for error in study["errors"]
    ]


def known_errors_table() -> Table:
    """`known_errors` as the report's table."""
    columns = by_place("study", "what was done", "where it is seen", "here", "how", "the test that shows it")
    lines = [
        [f"{error.study}, {studies()[error.study]['name']}", error.done, error.seen, error.here, error.how, error.test]
        for error in known_errors()
    ]
    notes = [
        "Impossible: accelbench can't produce such a number. Invalid: such a cell is recorded with the reason, and its "
        "numbers are not published. Shown: the report shows the figure that reveals it.",
        "Where it is seen: the study's own words or code, or what follows from its numbers. Study 004 has no numbers: "
        "they are from codebasics, whose networks it trains.",
    ]
    return tabulate("How a benchmark lies", columns, lines, notes)
