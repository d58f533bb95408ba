"""Records on their way to the tracker, whose failures do not stop a sweep."""

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from accelbench.answers.cells import cells_of
from accelbench.answers.process import Process
from accelbench.errors import UnknownChoiceError
from accelbench.schema.record import Record
from accelbench.schema.vocab import Status
from accelbench.sinks.location import one_line

TRACKING = ("mlflow", "none")
PATIENCE_S = 3.0  # failed attempts may take this long in total


class Delivery:
    """Delivers the records of one sweep to the tracker, in the order in which they were measured.

    Failures are counted, never raised: the records are on disk already, and `accelbench sync` delivers them later. A
    store that can't be opened, or whose failures took `PATIENCE_S` seconds, is asked for nothing more.

    `root` is the folder of MLflow's store. Raises UnknownChoiceError: `tracking` is none of `TRACKING`.
    """

    def __init__(self, tracking: str, root: Path) -> None:
        if tracking not in TRACKING:
            raise UnknownChoiceError("tracking", tracking, TRACKING)
        self._is_on, self._root = tracking == "mlflow", root
        self._store: Any = None
        self._waiting: list[Record] = []
        self._is_open = self._given_up = False
        self._lost_s = 0.0
        self.undelivered = 0  # records that did not reach the store
        self.is_unrelated = False  # whether runs lack how their speeds compare
        self.problem: str | None = None  # the first failure in one line

    def __enter__(self) -> "Delivery":
        return self

    def __exit__(self, *error: Any) -> None:
        self.deliver()

    def open(self) -> None:
        """Opens the store: MLflow's import and its database take seconds."""
        if self._is_on:
            self._is_open = True
            is_open, self._store = self._attempt(lambda: open_store(self._root))
            self._given_up = not is_open

    def add(self, record: Record) -> None:
        """Keeps the record for `deliver` or `finish`."""
        self._waiting.append(record)

    def deliver(self) -> None:
        """Delivers the records that were kept if the store is open. Not to be called while a cell is timed."""
        while self._is_open and self._waiting:
            record = self._waiting.pop(0)
            if record.status != Status.skipped and not self._ask("deliver", [record])[0]:
                self.undelivered += 1

    def finish(self) -> None:
        """Delivers the records that were kept."""
        if self._waiting and not self._is_open:
            self.open()
        self.deliver()

    def relate(self, processes: Iterable[Process]) -> None:
        """Adds to the runs of all of a sweep's processes how the speeds of their cells compare, and these cells."""
        if self._is_open and not self._ask("relate", cells_of(processes))[0]:
            self.is_unrelated = True

    def links(self, record: Record) -> dict[str, str]:
        """The tracker -> where it shows the run of a delivered record."""
        link = self._ask("link", record)[1] if self._is_open else None
        return {"MLflow": link} if link else {}

    def loss(self) -> str:
        """A line if some records, or how their speeds compare, did not reach the tracker; else empty."""
        if not (self.undelivered or self.is_unrelated):
            return ""
        lost = f"{self.undelivered} runs" if self.undelivered else "How the runs' speeds compare"
        return f"{lost} did not reach MLflow ({self.problem}): `accelbench sync` delivers what is missing."

    def _ask(self, method: str, *args: object) -> tuple[bool, Any]:
        return self._attempt(lambda: getattr(self._store, method)(*args))

    def _attempt(self, action: Callable[[], Any]) -> tuple[bool, Any]:
        """Whether it succeeded, and what it returned."""
        if self._given_up:
            return False, None
        start = time.monotonic()
        try:
            return True, action()
        except Exception as error:  # a tracker may raise anything, and the sweep goes on
            self.problem = self.problem or one_line(error)
            self._lost_s += time.monotonic() - start
            self._given_up = self._lost_s > PATIENCE_S
            return False, None


def open_store(root: Path) -> Any:
    """The project's store, an `mlflow.Store`."""
    from accelbench.sinks.mlflow import Store  # its import takes over a second

    return Store(root)
