"""Delivers records to the tracker, during a sweep or later. If a tracker fails, the sweep continues."""

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from accelbench.answers.cells import Process, cells_of
from accelbench.errors import UnknownChoiceError
from accelbench.schema import record as records
from accelbench.schema.record import TRACKING, UNTRACKED, Record
from accelbench.schema.serialize import grouped
from accelbench.schema.vocab import Status
from accelbench.sinks.location import one_line, unreachable
from accelbench.sinks.mlflow_fields import key_of, ran

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
    """How many records a sync added to the store, found there, and left out."""

    num_delivered: int  # records that the sync added to the store
    num_already_there: int
    num_left_out: int  # records of sweeps with tracking=none


def sync(root: Path, sweeps: Iterable[Sequence[Process]], *, has_all: bool = False) -> SyncResult:
    """Delivers the record of every process that has no finished run in the store. `sweeps` has the processes of each.

    Records of sweeps with tracking=none are left out, unless `has_all`. A second call adds no run. If the store was
    lost, a call fills a new store.

    Raises UserError if the store can't be reached. Runs that were delivered before the error stay in the store.
    """
    tracked: list[list[Process]] = []
    num_ran = 0
    for processes in sweeps:
        num_ran += len(ran(processes))
        wanted = [process for process in processes if has_all or process.environment.get(TRACKING) != UNTRACKED]
        tracked += grouped(wanted, lambda process: process.cell.suite).values()
    try:
        num_delivered = _deliver(root, [processes for processes in tracked if ran(processes)])
    except Exception as error:  # the errors of mlflow, sqlalchemy and requests have no common base class
        raise unreachable(root, error) from error
    num_wanted = sum(len(ran(processes)) for processes in tracked)
    return SyncResult(num_delivered, num_wanted - num_delivered, num_ran - num_wanted)


def _deliver(root: Path, sweeps: Sequence[Sequence[Process]]) -> int:
    """Delivers the records that have no run, and returns their number. The cells of a sweep are of one suite."""
    store = open_store(root)
    delivered = {suite: store.delivered(suite) for suite in {processes[0].cell.suite for processes in sweeps}}
    num_delivered = 0
    for processes in sweeps:
        known = delivered[processes[0].cell.suite]
        missing = [process for process in ran(processes) if key_of(process) not in known]
        for record in records.read_all([process.path for process in missing if process.path]):
            num_delivered += store.deliver(record)
        if missing:
            store.relate(cells_of(processes))
    return num_delivered
