"""Delivers records to the tracker, during a sweep or later. If a tracker fails, the sweep continues."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from accelbench.answers.cells import Process, cells_of
from accelbench.errors import UnknownChoiceError
from accelbench.schema import record as records
from accelbench.schema.cell import Status
from accelbench.schema.record import TRACKING, UNTRACKED, Record
from accelbench.schema.serialize import grouped
from accelbench.sinks.location import one_line, unreachable
from accelbench.sinks.mlflow_fields import ran, start_ms

TRACKERS = ("mlflow", UNTRACKED)


class Delivery:
    """Delivers the records of one sweep to the tracker, in the order in which they were measured.

    If a delivery fails, no error is raised: the records are on disk, and `accelbench sync` can deliver them later. If
    the store can't be opened, nothing is sent. If it fails later, nothing more is sent until `finish`.

    `root` is the folder of MLflow's store. If `is_confirming`, the cells belong to another sweep, which MLflow keeps
    showing. Raises UnknownChoiceError if `tracking` is none of `TRACKERS`.
    """

    def __init__(self, tracking: str, root: Path, *, is_confirming: bool = False) -> None:
        if tracking not in TRACKERS:
            raise UnknownChoiceError("tracking", tracking, TRACKERS)
        self._is_on = tracking == "mlflow"
        self._root = root
        self._is_confirming = is_confirming
        self._store: Any = None
        self._waiting: list[Record] = []
        self.problem: str | None = None  # the last failure, in one line

    def __enter__(self) -> "Delivery":
        return self

    def __exit__(self, *error: Any) -> None:
        self.deliver()

    def open(self) -> None:
        """Opens the store. This takes seconds, because MLflow is imported and its database opened."""
        if self._is_on and self._store is None:
            with self._noting_failure():
                self._store = open_store(self._root)
            self._is_on = self._store is not None  # no second attempt if this one failed

    def add(self, record: Record) -> None:
        """Keeps the record for `deliver` or `finish`, unless its cell was skipped."""
        if record.status != Status.skipped:
            self._waiting.append(record)

    def deliver(self) -> None:
        """Delivers the kept records if the store is open. Do not call it while a cell is timed."""
        with self._noting_failure():
            while self._store and self._waiting:
                self._store.deliver(self._waiting[0], is_confirming=self._is_confirming)
                del self._waiting[0]

    def finish(self, processes: Iterable[Process] = ()) -> None:
        """Delivers the kept records, and writes the comparison of the cells of `processes` into their runs."""
        if self._waiting:
            self.open()
        if self._store:
            self.problem = None
            self.deliver()
        with self._noting_failure():
            if self._store and not self._is_confirming:
                self._store.relate(cells_of(processes))

    def loss(self) -> str:
        """Returns a line about runs that did not reach the tracker. Returns an empty text if all runs did."""
        return f"MLflow lacks runs ({self.problem}): `accelbench sync` delivers them." if self.problem else ""

    @contextmanager
    def _noting_failure(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # a tracker may raise anything, and the sweep goes on
            self.problem = one_line(error)
            self._store = None


def open_store(root: Path) -> Any:
    """The project's store, an `mlflow.Store`."""
    from accelbench.sinks.mlflow import Store  # not at the top: this import takes over a second

    return Store(root)


def sync(root: Path, sweeps: Iterable[Sequence[Process]], *, has_all: bool = False) -> int:
    """Delivers the record of every process that has no finished run in the store. Returns how many these were.

    `sweeps` has the processes of each sweep. Records of sweeps with tracking=none are left out, unless `has_all`. A
    second call adds no run. If the store was lost, a call fills a new store.

    Raises UserError if the store can't be reached. Runs that were delivered before the error stay in the store.
    """
    num_delivered = 0
    try:
        store = open_store(root)
        delivered = cache(store.delivered)  # which lists all runs of a suite
        for processes in sweeps:
            tracked = [
                process for process in processes if has_all or process.environment.get(TRACKING) != UNTRACKED
            ]
            for suite, of_suite in grouped(tracked, lambda process: process.cell.suite).items():
                missing = []
                for process in ran(of_suite):
                    if process.path and (process.name, start_ms(process)) not in delivered(suite):
                        missing.append(process.path)
                for record in records.read_all(missing):
                    num_delivered += store.deliver(record)
                if missing:
                    store.relate(cells_of(of_suite))
    except Exception as error:  # the errors of mlflow, sqlalchemy and requests have no common base class
        raise unreachable(root, error) from error
    return num_delivered
