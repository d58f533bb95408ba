"""What the studies published: their numbers, and what was wrong with them."""

import csv
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from accelbench.report.tables.table import Column, Table, tabulate, word
from accelbench.schema.vocab import Precision

FOLDER = Path(__file__).parent


@dataclass(frozen=True, kw_only=True)
class Published:
    """One published number.

    Attributes:
        device: None if the source does not say.
        model: the network; `all` for a mean over all of the study's.
        batch_size: None if the source does not say.
        metric: `train_time`, `test_time` (s), `accuracy` (of the test set), `train_accuracy` (of the last epoch; %),
            `loss` (of training), `validation_loss`, `epochs`, `one_epoch_time` (s), `time_per_image`, `latency` (ms),
            `communication_share` (%), `peak_memory` (MB), `utilization` (%), `power` (W), `temperature` (°C);
            `speedup_over_<device>` (x), or its bounds with `low_` and `high_` before it, or with `end_to_end_` the same
            from the study's raw data.
        assumed: which of these the source does not say: `batch_size`, `metric` or `value`.
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
    """The numbers of `study`, in the order of its tables; empty for a study without numbers here."""
    with (FOLDER / "published.csv").open(encoding="utf-8") as file:
        return tuple(_parse(row) for row in csv.DictReader(file) if row["study"] == study)


def find(study: str | None, model: str, metric: str, device: str | None) -> Published | None:
    """The published number; None if the study has no such number."""
    wanted = (model, metric, device)
    return next((entry for entry in load(study) if (entry.model, entry.metric, entry.device) == wanted), None)


def _parse(row: dict[str, str]) -> Published:
    return Published(
        study=row["study"],
        device=row["device"] or None,
        model=row["model"],
        precision=Precision(row["precision"]),
        batch_size=int(row["batch_size"]) if row["batch_size"] else None,
        metric=row["metric"],
        value=float(row["value"]),
        unit=row["unit"],
        assumed=row["assumed"] or None,
        source=row["source"],
    )


class Remedy(StrEnum):
    """What accelbench does about a way to publish a false number."""

    impossible = "impossible"
    invalid = "invalid"
    shown = "shown"


@dataclass(frozen=True, kw_only=True)
class KnownError:
    """A way in which a study published a false number, what accelbench does about it, how, and the test of that."""

    study: str
    done: str
    here: Remedy
    how: str
    test: str


@cache
def studies() -> dict[str, Any]:
    """What studies.yaml has: by the study's number its name, caveats and errors."""
    found: dict[str, Any] = yaml.safe_load((FOLDER / "studies.yaml").read_text(encoding="utf-8"))
    return found


def caveats(study: str | None) -> list[str]:
    """Sentences to read before comparing with a study's numbers."""
    return list(studies().get(study or "", {}).get("caveats", []))


def known_errors() -> list[KnownError]:
    """What was wrong with the five studies, in their order."""
    return [
        KnownError(study=number, done=error["done"], here=Remedy(error["here"]), how=error["how"], test=error["test"])
        for number, study in studies().items()
        for error in study["errors"]
    ]


COLUMNS: list[Column[KnownError]] = [
    Column("study", lambda error: word(f"{error.study}, {studies()[error.study]['name']}")),
    Column("what was done", lambda error: word(error.done)),
    Column("here", lambda error: word(error.here)),
    Column("how", lambda error: word(error.how)),
    Column("the test that shows it", lambda error: word(error.test)),
]


def known_errors_table() -> Table:
    """`known_errors` as the report's table."""
    notes = [
        "Impossible: accelbench can't produce such a number. Invalid: such a cell is recorded with the reason, and its "
        "numbers are not published. Shown: the report shows the figure that reveals it.",
    ]
    return tabulate("How a benchmark lies", COLUMNS, known_errors(), notes)
