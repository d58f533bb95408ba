"""Delivers to MLflow what a sweep could not: the records on disk are compared with the runs in the store."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from accelbench.errors import UserError
from accelbench.project import RECORDS
from accelbench.schema import record as records
from accelbench.schema.record import Record
from accelbench.schema.vocab import Status
from accelbench.sinks.location import unreachable


@dataclass(frozen=True, kw_only=True)
class SyncResult:
    """What a sync did.

    Attributes:
        num_delivered: records that are in the store now and were not before.
        num_already_there: records that were.
        unreadable: a line per file that is no record, or one of another version; these were passed over.
    """

    num_delivered: int
    num_already_there: int
    unreadable: tuple[str, ...]

    def __str__(self) -> str:
        """What a sync did, for people."""
        counts = f"MLflow: {self.num_delivered} runs delivered, {self.num_already_there} already there."
        return "\n".join([counts, *(f"Passed over: {line}" for line in self.unreadable)])


def sync(root: Path, folders: Iterable[Path]) -> SyncResult:
    """Delivers every record below `folders` that the store has no whole run of; it may be repeated at will.

    It keeps no state of its own, so that it also fills a new store after the old one was lost. Skipped cells
    are no runs.

    Args:
        root: the project's folder.
        folders: such as results/ and runs/; one that does not exist holds no records.

    Raises:
        UserError: the store can't be reached; what was delivered until then stays.
    """
    found, unreadable = _read(folders)
    try:
        num_delivered = _deliver(root, found)
    except Exception as error:  # mlflow's, sqlalchemy's and requests' errors share no base
        raise unreachable(root, error) from error
    return SyncResult(
        num_delivered=num_delivered, num_already_there=len(found) - num_delivered, unreadable=tuple(unreadable)
    )


def _read(folders: Iterable[Path]) -> tuple[list[Record], list[str]]:
    found: dict[tuple[str, str], Record] = {}  # the same record in two folders is one
    unreadable = []
    for path in sorted(path for folder in folders for path in folder.rglob(RECORDS)):
        try:
            record = records.read(path)
        except UserError as error:
            unreadable.append(str(error))
        else:
            if record.status != Status.skipped:
                found[record.name, record.started_at] = record
    return list(found.values()), unreadable


def _deliver(root: Path, found: list[Record]) -> int:
    from accelbench.sinks.mlflow import Store  # its import takes over a second

    store = Store(root)
    suites = defaultdict(list)
    for record in found:
        suites[record.cell.suite].append(record)
    num_delivered = 0
    for suite, of_suite in suites.items():
        there = store.delivered(suite)
        for record in of_suite:
            if (record.name, record.started_at) not in there:
                num_delivered += store.deliver(record)
    return num_delivered
