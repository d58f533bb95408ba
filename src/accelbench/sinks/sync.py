"""Delivers to MLflow the records on disk that have no run in the store yet."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

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


def _read(folders: Iterable[Path]) -> tuple[list[Record], list[str]]:
    """The records to deliver, and a line for each record that can't be read."""
    readable = records.read_all(sorted(path for folder in folders for path in folder.rglob(RECORDS)))
    # A record may lie in two folders.
    found = {(record.name, record.started_at): record for record in readable if record.status != Status.skipped}
    return list(found.values()), readable.problems()


def _deliver(root: Path, found: list[Record]) -> int:
    """The number of records that had no run."""
    from accelbench.sinks.mlflow import Store  # its import takes over a second

    store = Store(root)
    by_suite = defaultdict(list)
    for record in found:
        by_suite[record.cell.suite].append(record)
    num_delivered = 0
    for suite, records_of_suite in by_suite.items():
        delivered = store.delivered(suite)
        missing = [each for each in records_of_suite if (each.name, each.started_at) not in delivered]
        num_delivered += sum(store.deliver(record) for record in missing)
        for sweep_id in {record.sweep_id for record in missing}:
            store.relate(relative_speeds(each for each in records_of_suite if each.sweep_id == sweep_id))
    return num_delivered
