"""What every sink is: a listener that records are delivered to, and that may fail without hurting a sweep."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import Self

from accelbench.schema.record import Record

PATIENCE_S = 3.0


class Sink(ABC):
    """A context manager that delivers records; its failures are counted, never raised.

    A sink that could not be opened, or whose failures have cost `PATIENCE_S` seconds, is left alone for the
    rest of the sweep: the records are on disk already, and `accelbench sync` delivers them later.

    Attributes:
        name: what people call it.
        undelivered: records that did not reach it.
        problem: why the first of them did not, in one line; None where nothing failed.
    """

    name: str

    def __init__(self) -> None:
        self.undelivered = 0
        self.problem: str | None = None
        self._given_up = False
        self._lost_s = 0.0

    def __enter__(self) -> Self:
        self._given_up = not self._attempt(self._open)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._given_up:
            self._attempt(self._close)

    def deliver(self, record: Record) -> None:
        """Delivers `record`, or counts it as undelivered."""
        if self._given_up or not self._attempt(lambda: self._send(record)):
            self.undelivered += 1

    def link(self, record: Record) -> str | None:
        """Where people find what it was delivered, and what to do first; None where it is not there."""
        found: list[str | None] = []
        if self._given_up or not self._attempt(lambda: found.append(self._find(record))):
            return None
        return found[0]

    def _attempt(self, action: Callable[[], None]) -> bool:
        start = time.monotonic()
        try:
            action()
        except Exception as error:  # whatever a tracker raises, the sweep goes on
            self.problem = self.problem or one_line(error)
            self._lost_s += time.monotonic() - start
            self._given_up = self._lost_s > PATIENCE_S
            return False
        return True

    @abstractmethod
    def _open(self) -> None:
        """Connects; raises whatever it likes."""

    @abstractmethod
    def _send(self, record: Record) -> None:
        """Delivers one record; raises whatever it likes."""

    @abstractmethod
    def _find(self, record: Record) -> str | None:
        """Where a delivered record is, for people; None where it is not there; raises whatever it likes."""

    @abstractmethod
    def _close(self) -> None:
        """Lets go of the connection; raises whatever it likes."""


def one_line(error: Exception) -> str:
    """The first line of what `error` says, for people."""
    lines = str(error).strip().splitlines()
    return lines[0][:300] if lines else type(error).__name__
