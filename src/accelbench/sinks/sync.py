"""Delivers to MLflow the records on disk that have no run in the store yet."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from accelbench.answers.cells import cells_of
from accelbench.answers.process import Process
from accelbench.project import CONFIRMED, RECORDS, RESULTS
from accelbench.schema import record as records
from accelbench.schema.record import Record, listed
from accelbench.schema.vocab import Status
from accelbench.sinks.location import unreachable


@dataclass(frozen=True, kw_only=True)
class SyncResult:
    """What a sync did."""

    num_delivered: int  # records that the sync added to the store
    num_already_there: int
    unreadable: tuple[str, ...]  # a line for each record that can't be read, with its path and why

    def __str__(self) -> str:
        """The counts, and the first unreadable records."""
        lines = [f"MLflow: {self.num_delivered} runs delivered, {self.num_already_there} already there."]
        if self.unreadable:
            lines += [f"Not readable: {len(self.unreadable)}", *(f"  {line}" for line in listed(self.unreadable))]
        return "\n".join(lines)


class Found(NamedTuple):
    """What is held of a record: whole ones of a hundred thousand would fill the memory."""

    path: Path
    suite: str
    key: tuple[str, str]  # as `mlflow.key_of`
    is_confirming: bool  # whether its process was interleaved with another cell's, to say which cell is faster
    sweep: Path  # equal for records that answer the same questions: of one sweep, or of processes that confirm it


def sync(root: Path, folders: Iterable[Path]) -> SyncResult:
    """Delivers every record below `folders` that has no finished run in the store; safe to repeat.

    The store alone says what is missing: a new store is filled after an old one was lost. The folders need not exist.
    Raises UserError: the store can't be reached; runs delivered so far stay in it.
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
            suite, key = each
            is_confirming = path.parent.parent.name == CONFIRMED
            sweep = path.parents[2] / RESULTS / suite if is_confirming else path.parent
            found.setdefault(key, Found(path, suite, key, is_confirming, sweep))  # it may lie in two folders
    return list(found.values()), readable.problems()


def _found(record: Record) -> tuple[str, tuple[str, str]] | None:
    return None if record.status == Status.skipped else (record.cell.suite, (record.name, record.started_at))


def _deliver(root: Path, found: list[Found]) -> int:
    """The number of records that had no run."""
    from accelbench.sinks.mlflow import BATCH, Store  # its import takes over a second

    store = Store(root)
    by_suite, sweeps = defaultdict(list), defaultdict(list)
    for each in found:
        by_suite[each.suite].append(each)
        sweeps[each.sweep, each.suite].append(each)
    num_delivered = 0
    is_related: dict[tuple[str, str], bool] = {}
    for suite, of_suite in by_suite.items():
        delivered = store.delivered(suite)
        missing = sorted((each for each in of_suite if each.key not in delivered), key=lambda each: each.key[1])
        for start in range(0, len(missing), BATCH):
            batch = list(records.read_all([each.path for each in missing[start : start + BATCH]]))
            num_delivered += store.deliver(batch) if batch else 0
        is_related |= delivered
    for sweep in sweeps.values():
        if not all(is_related.get(each.key) for each in sweep):
            confirming = {each.path for each in sweep if each.is_confirming}
            by_path = records.read_all([each.path for each in sweep]).by_path()
            store.relate(
                cells_of(replace(Process.of(record), is_confirming=path in confirming) for path, record in by_path)
            )
    return num_delivered
