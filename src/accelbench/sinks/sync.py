"""Delivers to MLflow the records on disk that have no run in the store yet."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from accelbench.project import RECORDS
from accelbench.schema import record as records
from accelbench.schema.record import Record, listed
from accelbench.schema.vocab import Status
from accelbench.sinks.location import unreachable
from accelbench.sinks.relative_speed import relative_speeds


@dataclass(frozen=True, kw_only=True)
class SyncResult:
    """What a sync did.

    Attributes:
        num_delivered: records that the sync added to the store.
        num_already_there: records that had a run before.
        unreadable: a line for each record that can't be read, with its path and why.
    """

    num_delivered: int
    num_already_there: int
    unreadable: tuple[str, ...]

    def __str__(self) -> str:
        """The counts, and the first unreadable records."""
        lines = [f"MLflow: {self.num_delivered} runs delivered, {self.num_already_there} already there."]
        if num := len(self.unreadable):
            what = "record can't be read and was" if num == 1 else "records can't be read and were"
            lines.append(f"{num} {what} not delivered:")
            lines += [f"  {line}" for line in listed(self.unreadable)]
        return "\n".join(lines)


class Found(NamedTuple):
    """A record, and the folder of its sweep."""

    record: Record
    folder: Path


def sync(root: Path, folders: Iterable[Path]) -> SyncResult:
    """Delivers every record below `folders` that has no finished run in the store; safe to repeat.

    The store alone says what is missing, so a new store is filled after an old one was lost. Skipped cells are not
    delivered.

    Args:
        root: the folder of the store.
        folders: such as results/ and runs/; they need not exist.

    Raises:
        UserError: the store can't be reached; runs delivered so far stay in it.
    """
    found, unreadable = _read(folders)
    try:
        num_delivered = _deliver(root, found)
    except Exception as error:  # the errors of mlflow, sqlalchemy and requests have no common base class
        raise unreachable(root, error) from error
    return SyncResult(
        num_delivered=num_delivered, num_already_there=len(found) - num_delivered, unreadable=tuple(unreadable)
    )


def _read(folders: Iterable[Path]) -> tuple[list[Found], list[str]]:
    """The records to deliver, and a line for each record that can't be read."""
    readable = records.read_all(sorted(path for folder in folders for path in folder.rglob(RECORDS)))
    found: dict[tuple[str, str], Found] = {}
    for path, record in readable.by_path():
        if record.status != Status.skipped:
            found.setdefault((record.name, record.started_at), Found(record, path.parent))  # it may lie in two folders
    return list(found.values()), readable.problems()


def _deliver(root: Path, found: list[Found]) -> int:
    """The number of records that had no run."""
    from accelbench.sinks.mlflow import Store, key_of  # its import takes over a second

    store = Store(root)
    by_suite = defaultdict(list)
    for each in found:
        by_suite[each.record.cell.suite].append(each)
    num_delivered = 0
    for suite, of_suite in by_suite.items():
        delivered = store.delivered(suite)
        num_delivered += sum(store.deliver(each.record) for each in of_suite if key_of(each.record) not in delivered)
        sweeps = defaultdict(list)
        for each in of_suite:
            sweeps[each.folder].append(each.record)
        for sweep in sweeps.values():
            speeds = relative_speeds(sweep)
            if not all(delivered.get(key_of(each.record)) for each in speeds):
                store.relate(speeds)
    return num_delivered
