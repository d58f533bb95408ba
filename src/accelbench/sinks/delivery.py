"""Records on their way to the tracker: while a sweep runs, which no failure stops, or later what is missing there."""

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from accelbench.answers.cells import cells_of
from accelbench.answers.process import Process
from accelbench.errors import UnknownChoiceError
from accelbench.project import CONFIRMED, RESULTS
from accelbench.schema import record as records
from accelbench.schema.plan_file import record_paths
from accelbench.schema.record import TRACKING, UNTRACKED, Record
from accelbench.schema.serialize import changed, grouped
from accelbench.schema.vocab import Status
from accelbench.sinks.location import one_line, unreachable

TRACKERS = ("mlflow", UNTRACKED)
PATIENCE_S = 3.0  # failed attempts may take this long in total
BATCH = 50  # records that a sync delivers while the lock is held: some three seconds


class Delivery:
    """Delivers the records of one sweep to the tracker, in the order in which they were measured.

    Failures are kept, never raised: the records are on disk already, and `accelbench sync` delivers them later. A store
    that can't be opened, or whose failures took `PATIENCE_S` seconds, is asked for nothing more.

    `root` is the folder of MLflow's store. Raises UnknownChoiceError: `tracking` is none of `TRACKERS`.
    """

    def __init__(self, tracking: str, root: Path) -> None:
        if tracking not in TRACKERS:
            raise UnknownChoiceError("tracking", tracking, TRACKERS)
        self._is_on, self._root = tracking == "mlflow", root
        self._store: Any = None
        self._waiting: list[Record] = []
        self._lost_s = 0.0
        self.problem: str | None = None  # the first failure in one line

    def __enter__(self) -> "Delivery":
        return self

    def __exit__(self, *error: Any) -> None:
        self.deliver()

    def open(self) -> None:
        """Opens the store: MLflow's import and its database take seconds."""
        if self._is_on:
            self._is_on = False  # it is opened once
            self._store = self._attempt(lambda: open_store(self._root))

    def add(self, record: Record) -> None:
        """Keeps the record for `deliver` or `finish`."""
        self._waiting.append(record)

    def deliver(self) -> None:
        """Delivers the records that were kept if the store is open. Not to be called while a cell is timed."""
        while self._store and self._waiting:
            record = self._waiting.pop(0)
            if record.status != Status.skipped:
                self._ask("deliver", [record])

    def finish(self) -> None:
        """Delivers the records that were kept."""
        if self._waiting:
            self.open()
        self.deliver()

    def relate(self, processes: Iterable[Process]) -> None:
        """Adds to the runs of all of a sweep's processes how the speeds of their cells compare, and these cells."""
        self._ask("relate", cells_of(processes))

    def loss(self) -> str:
        """A line if something did not reach the tracker; else empty."""
        return f"MLflow lacks runs ({self.problem}): `accelbench sync` delivers them." if self.problem else ""

    def _ask(self, method: str, *args: object) -> Any:
        return self._attempt(lambda: getattr(self._store, method)(*args)) if self._store else None

    def _attempt(self, action: Callable[[], Any]) -> Any:
        """What it returned; None if it failed."""
        start = time.monotonic()
        try:
            return action()
        except Exception as error:  # a tracker may raise anything, and the sweep goes on
            self.problem = self.problem or one_line(error)
            self._lost_s += time.monotonic() - start
            if self._lost_s > PATIENCE_S:
                self._store = None
            return None


def open_store(root: Path) -> Any:
    """The project's store, an `mlflow.Store`."""
    from accelbench.sinks.mlflow import Store  # its import takes over a second

    return Store(root)


class SyncResult(NamedTuple):
    """What a sync did."""

    num_delivered: int  # records that the sync added to the store
    num_already_there: int
    unreadable: list[str]  # a line for each record that can't be read, with its path and why
    num_left_out: int  # records of sweeps with tracking=none


def sync(root: Path, folders: Iterable[Path], *, has_all: bool = False) -> SyncResult:
    """Delivers every record below `folders` that has no finished run in the store; safe to repeat.

    Those of sweeps with tracking=none are left out, unless `has_all`.

    The store alone says what is missing: a new store is filled after an old one was lost. The folders need not exist.
    Raises UserError: the store can't be reached; runs delivered so far stay in it.
    """
    everything, unreadable = _read(folders)
    found = [each for each in everything if has_all or each.environment.get(TRACKING) != UNTRACKED]
    try:
        num = _deliver(root, found)
    except Exception as error:  # the errors of mlflow, sqlalchemy and requests have no common base class
        raise unreachable(root, error) from error
    return SyncResult(num, len(found) - num, unreadable, len(everything) - len(found))


def _read(folders: Iterable[Path]) -> tuple[list[Process], list[str]]:
    """The processes to deliver, without samples, and a line for each record that can't be read.

    Their folders are equal for those that answer the same questions: of one sweep, or of what confirms it.
    """
    readable = records.read_all([path for folder in folders for path in record_paths(folder)])
    found: dict[tuple[str, str], Process] = {}
    for path, each in readable.each(lambda record: Process.of(record).without_samples()):
        if each.outcome != Status.skipped:
            is_confirming = path.parent.parent.name == CONFIRMED
            sweep = path.parents[2] / RESULTS / each.cell.suite if is_confirming else path.parent
            placed = changed(each, path=path, folder=str(sweep), is_confirming=is_confirming)
            found.setdefault(_key(each), placed)  # it may lie in two folders
    return list(found.values()), readable.problems()


def _key(process: Process) -> tuple[str, str]:
    return process.name, process.started_at


def _deliver(root: Path, found: list[Process]) -> int:
    """The number of records that had no run."""
    store = open_store(root)
    num_delivered = 0
    is_related: dict[tuple[str, str], bool] = {}
    for suite, of_suite in grouped(found, lambda each: each.cell.suite).items():
        delivered = store.delivered(suite)
        missing = sorted((each for each in of_suite if _key(each) not in delivered), key=lambda each: each.started_at)
        for start in range(0, len(missing), BATCH):
            batch = list(records.read_all([each.path for each in missing[start : start + BATCH] if each.path]))
            num_delivered += store.deliver(batch) if batch else 0
        is_related |= delivered
    for sweep in grouped(found, lambda each: (each.folder, each.cell.suite)).values():
        if not all(is_related.get(_key(each)) for each in sweep):
            store.relate(cells_of(sweep))
    return num_delivered
