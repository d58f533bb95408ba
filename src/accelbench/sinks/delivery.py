"""Delivers records to the tracker, during a sweep or later. If a tracker fails, the sweep continues."""

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from accelbench.answers.cells import cells_of
from accelbench.answers.process import Process
from accelbench.errors import UnknownChoiceError, UserError
from accelbench.project import CONFIRMED, RESULTS
from accelbench.schema import record as records
from accelbench.schema.plan_file import read_plan, record_paths
from accelbench.schema.record import TRACKING, UNTRACKED, Record
from accelbench.schema.serialize import grouped
from accelbench.schema.vocab import Status
from accelbench.sinks.location import one_line, unreachable
from accelbench.sinks.mlflow_fields import Key, key_of, ran

TRACKERS = ("mlflow", UNTRACKED)
PATIENCE_S = 3.0  # limit of the total time of failed attempts


class Delivery:
    """Delivers the records of one sweep to the tracker, in the order in which they were measured.

    If a delivery fails, no error is raised: the records are on disk, and `accelbench sync` can deliver them later. If
    the store can't be opened, or if failures took more than `PATIENCE_S` seconds in total, nothing more is sent.

    `root` is the folder of MLflow's store. Raises UnknownChoiceError if `tracking` is none of `TRACKERS`.
    """

    def __init__(self, tracking: str, root: Path) -> None:
        if tracking not in TRACKERS:
            raise UnknownChoiceError("tracking", tracking, TRACKERS)
        self._is_on = tracking == "mlflow"
        self._root = root
        self._store: Any = None
        self._waiting: list[Record] = []
        self._lost_s = 0.0
        self.problem: str | None = None  # the first failure, in one line

    def __enter__(self) -> "Delivery":
        return self

    def __exit__(self, *error: Any) -> None:
        self.deliver()

    def open(self) -> None:
        """Opens the store. This takes seconds, because MLflow is imported and its database opened."""
        if self._is_on:
            self._is_on = False  # no second attempt if this one fails
            self._store = self._attempt(lambda: open_store(self._root))

    def add(self, record: Record) -> None:
        """Keeps the record for `deliver` or `finish`, unless its cell was skipped."""
        if record.status != Status.skipped:
            self._waiting.append(record)

    def deliver(self) -> None:
        """Delivers the kept records if the store is open. Do not call it while a cell is timed."""
        while self._store and self._waiting:
            self._attempt(partial(self._store.deliver, self._waiting.pop(0)))

    def finish(self) -> None:
        """Delivers the kept records, and opens the store if needed."""
        if self._waiting:
            self.open()
        self.deliver()

    def relate(self, processes: Iterable[Process]) -> None:
        """Writes the comparison of a sweep's cells into their runs."""
        if self._store:
            self._attempt(lambda: self._store.relate(cells_of(processes)))

    def loss(self) -> str:
        """Returns a line about runs that did not reach the tracker. Returns an empty text if all runs did."""
        return f"MLflow lacks runs ({self.problem}): `accelbench sync` delivers them." if self.problem else ""

    def _attempt(self, action: Callable[[], Any]) -> Any:
        """Calls `action` and returns its result; None if it failed."""
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
    from accelbench.sinks.mlflow import Store  # not at the top: this import takes over a second

    return Store(root)


class SyncResult(NamedTuple):
    """How many records a sync added to the store, found there, could not read, and left out."""

    num_delivered: int  # records that the sync added to the store
    num_already_there: int
    unreadable: list[str]  # a line for each record that can't be read, with its path and the reason
    num_left_out: int  # records of sweeps with tracking=none


def sync(root: Path, folders: Iterable[Path], *, has_all: bool = False) -> SyncResult:
    """Delivers every record below `folders` that has no finished run in the store.

    Records of sweeps with tracking=none are left out, unless `has_all`. A second call adds no run. If the store was
    lost, a call fills a new store with all records. A folder that does not exist is ignored.

    Raises UserError if the store can't be reached. Runs that were delivered before the error stay in the store.
    """
    everything, unreadable = _read(folders)
    wanted = [process for process in everything if has_all or process.environment.get(TRACKING) != UNTRACKED]
    try:
        num = _deliver(root, wanted)
    except Exception as error:  # the errors of mlflow, sqlalchemy and requests have no common base class
        raise unreachable(root, error) from error
    num_ran = len(ran(wanted))
    return SyncResult(num, num_ran - num, unreadable, len(ran(everything)) - num_ran)


def _read(folders: Iterable[Path]) -> tuple[list[Process], list[str]]:
    """Returns the processes in the order of delivery, without samples, and a line for each unreadable record.

    A record below confirmed/ repeats a cell of a suite. So its process has the suite's folder in results/ as `folder`.
    """
    readable = records.read_all([path for folder in folders for path in record_paths(folder)])
    processes: dict[Key, Process] = {}
    for path, record in readable.by_path():
        is_confirming = path.parent.parent.name == CONFIRMED
        sweep = path.parents[2] / RESULTS / record.cell.suite if is_confirming else path.parent
        process = Process.of(record, folder=str(sweep), path=path, is_confirming=is_confirming).without_samples()
        processes.setdefault(key_of(process), process)  # the same record may be in two folders
    places = _places({path.parent for path in readable.paths})
    ordered = sorted(
        processes.values(), key=lambda process: (places.get(process.name, len(places)), process.started_at)
    )
    return ordered, readable.problems()


def _places(folders: Iterable[Path]) -> dict[str, int]:
    """Maps the name of each record to its place in the order of delivery.

    The plans in the folders define the order. A sweep comes before the processes that confirm its answers.
    """
    places: dict[str, int] = {}
    for folder in sorted(folders, key=lambda folder: (folder.parent.name == CONFIRMED, folder)):
        with suppress(UserError):
            for wanted in read_plan(folder).cells:
                places.setdefault(wanted.record_name, len(places))
    return places


def _deliver(root: Path, processes: list[Process]) -> int:
    """Delivers the records that have no run, and returns their number."""
    store = open_store(root)
    delivered = {suite: store.delivered(suite) for suite in {process.cell.suite for process in ran(processes)}}
    num_delivered = 0
    for (_, suite), sweep in grouped(processes, lambda process: (process.folder, process.cell.suite)).items():
        missing = [process for process in ran(sweep) if key_of(process) not in delivered[suite]]
        for record in records.read_all([process.path for process in missing if process.path]):
            num_delivered += store.deliver(record)
        if missing:
            store.relate(cells_of(sweep))
    return num_delivered
