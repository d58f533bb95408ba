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
from accelbench.sinks.means import Process, cell_means
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
    """What is held of a record: whole ones of a hundred thousand would fill the memory.

    Attributes:
        key: as `mlflow.Key`, the name and the start of the record.
        process: see `means.Process.of`.
    """

    path: Path
    suite: str
    key: tuple[str, str]
    process: Process | None


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
    for path, each in readable.each(_found):
        if each is not None:
            suite, key, process = each
            found.setdefault(key, Found(path, suite, key, process))  # it may lie in two folders
    return list(found.values()), readable.problems()


def _found(record: Record) -> tuple[str, tuple[str, str], Process | None] | None:
    if record.status == Status.skipped:
        return None
    return record.cell.suite, (record.name, record.started_at), Process.of(record)


def _deliver(root: Path, found: list[Found]) -> int:
    """The number of records that had no run."""
    from accelbench.sinks.mlflow import BATCH, Store, key_of  # its import takes over a second

    store = Store(root)
    by_suite = defaultdict(list)
    for each in found:
        by_suite[each.suite].append(each)
    num_delivered = 0
    for suite, of_suite in by_suite.items():
        delivered = {tuple(key): is_related for key, is_related in store.delivered(suite).items()}
        missing = sorted((each for each in of_suite if each.key not in delivered), key=lambda each: each.key[1])
        for start in range(0, len(missing), BATCH):
            batch = list(records.read_all([each.path for each in missing[start : start + BATCH]]))
            num_delivered += store.deliver(batch) if batch else 0
        sweeps = defaultdict(list)
        for each in of_suite:
            sweeps[each.path.parent].append(each)
        for sweep in sweeps.values():
            if all(delivered.get(each.key) for each in sweep):
                continue
            speeds = relative_speeds(records.read_all([each.path for each in sweep]))
            if not all(delivered.get(key_of(each.record)) for each in speeds):
                store.relate(speeds)
        if means := cell_means(each.process for each in of_suite):
            store.show_means(means)
    return num_delivered
