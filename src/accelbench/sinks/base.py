"""The interface of a sink: records are delivered to it, and its failures do not stop a sweep."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from accelbench.answers.cells import MeasuredCell
from accelbench.schema.record import Record
from accelbench.schema.secrets import masked
from accelbench.schema.text import clean
from accelbench.sinks.relative_speed import RelativeSpeed

PATIENCE_S = 3.0  # failed attempts may take this long in total


class Sink(ABC):
    """A context manager that delivers records; failures are counted, never raised.

    A sink that can't be opened, or whose failures took `PATIENCE_S` seconds, gets no more records of the sweep. The
    records are on disk already, and `accelbench sync` delivers them later.

    Attributes:
        name: shown to users.
        undelivered: number of records that did not reach the sink.
        is_unrelated: whether runs lack how their speeds compare.
        problem: the first failure in one line; None without failures.
    """

    name: str

    def __init__(self) -> None:
        self.undelivered = 0
        self.is_unrelated = False
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

    def relate(self, found: Sequence[RelativeSpeed], cells: Sequence[MeasuredCell] = ()) -> None:
        """Adds how the speeds of delivered records compare, and their cells, or notes that it could not."""
        if (found or cells) and (self._given_up or not self._attempt(lambda: self._relate(found, cells))):
            self.is_unrelated = True

    def link(self, record: Record) -> str | None:
        """Where the user finds a delivered record, and the command that shows it; None if it is not there."""
        links: list[str | None] = []
        if self._given_up or not self._attempt(lambda: links.append(self._find(record))):
            return None
        return links[0]

    def _attempt(self, action: Callable[[], None]) -> bool:
        start = time.monotonic()
        try:
            action()
        except Exception as error:  # a tracker may raise anything, and the sweep goes on
            self.problem = self.problem or one_line(error)
            self._lost_s += time.monotonic() - start
            self._given_up = self._lost_s > PATIENCE_S
            return False
        return True

    @abstractmethod
    def _open(self) -> None:
        """Connects; may raise any exception."""

    @abstractmethod
    def _send(self, record: Record) -> None:
        """Delivers one record; may raise any exception."""

    def _relate(self, found: Sequence[RelativeSpeed], cells: Sequence[MeasuredCell]) -> None:  # noqa: B027
        """Adds how speeds compare, and cells, if the tracker shows them; may raise any exception."""

    @abstractmethod
    def _find(self, record: Record) -> str | None:
        """Where the user finds a delivered record; None if it is not there; may raise any exception."""

    @abstractmethod
    def _close(self) -> None:
        """Closes the connection; may raise any exception."""


def one_line(error: Exception) -> str:
    """The first line of the error's message, without secrets, or the error's type if there is no message."""
    lines = clean(masked(str(error))).strip().splitlines()
    return lines[0][:300] if lines else type(error).__name__
