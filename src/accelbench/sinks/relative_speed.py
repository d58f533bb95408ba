"""The speeds of a sweep's records relative to each other, so that runs of several models compare in one chart."""

from collections.abc import Iterable
from dataclasses import dataclass

from accelbench.judging.row import summarise
from accelbench.schema.cell import CHOSEN_SETTINGS
from accelbench.schema.record import Record
from accelbench.schema.serialize import canonical_json
from accelbench.schema.vocab import Status


@dataclass(frozen=True)
class RelativeSpeed:
    """The speed of an ok record.

    Attributes:
        share: of the samples/s of the fastest record that did the same thing, in (0, 1].
        fastest: that one.
    """

    record: Record
    share: float
    fastest: Record


def relative_speeds(records: Iterable[Record]) -> list[RelativeSpeed]:
    """The speeds of ok records in groups of at least two that did the same thing with other `CHOSEN_SETTINGS`."""
    groups: dict[str, list[tuple[float, Record]]] = {}
    for record in records:
        rate = summarise(record)["samples_per_s"] if record.status == Status.ok else None
        if isinstance(rate, int | float) and rate > 0:
            settings = record.cell.settings() | dict.fromkeys(CHOSEN_SETTINGS)
            digest = record.data.digest if record.data else None
            groups.setdefault(canonical_json([settings, digest]), []).append((float(rate), record))
    found = []
    for group in groups.values():
        best, fastest = max(group, key=lambda pair: pair[0])
        found += [RelativeSpeed(record, rate / best, fastest) for rate, record in group if len(group) > 1]
    return found
