"""A sink: records are delivered to it, and how their speeds compare. Its failures do not stop a sweep."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from accelbench.answers.cells import MeasuredCell
from accelbench.answers.groups import groups
from accelbench.answers.ranking import verdict_text
from accelbench.schema.record import Record
from accelbench.schema.secrets import masked
from accelbench.schema.text import clean
from accelbench.schema.vocab import Status

PATIENCE_S = 3.0  # failed attempts may take this long in total


@dataclass(frozen=True)
class RelativeSpeed:
    """How the cell of an ok record compares with the fastest cell that did the same thing in the same place.

    What is compared is the cell, and not the process, so that runs of several models compare in one chart.
    """

    record: Record
    cell: MeasuredCell  # of the record
    share: float  # the cell's published speed over that of the fastest cell, at most 1
    fastest: Record  # the typical process of the fastest cell
    verdict: str  # `fastest`, or such as `0.763 times as fast, likely`
    command: str | None = None  # what may say which cell is faster; None if not needed, or too long

    @property
    def words(self) -> str:
        """The verdict, with the command that may decide."""
        return f"{self.verdict}; this may decide: `{self.command}`" if self.command else self.verdict


def relative_speeds(cells: Iterable[MeasuredCell]) -> list[RelativeSpeed]:
    """One for each ok process whose cell did the same thing as another one, with other settings."""
    found = []
    for group in groups(cells):
        assert group.fastest.record
        for cell in group.cells if len(group.cells) > 1 else []:
            gap = group.gap_to(cell) if cell is not group.fastest else None
            share, command = (min(1.0, 1 / gap.ratio), gap.command) if gap else (1.0, None)
            own = [each.record for each in cell.processes if each.record is not None and each.is_ok]
            words = verdict_text(group, cell), command
            found += [RelativeSpeed(record, cell, share, group.fastest.record, *words) for record in own]
    return found


class Sink(ABC):
    """Delivers records; failures are counted, never raised. The methods with an underscore may raise any exception.

    A sink that can't be opened, or whose failures took `PATIENCE_S` seconds, gets no more records of the sweep. The
    records are on disk already, and `accelbench sync` delivers them later.
    """

    name: str  # shown to users

    def __init__(self) -> None:
        self.undelivered = 0  # records that did not reach the sink
        self.is_unrelated = False  # whether runs lack how their speeds compare
        self.problem: str | None = None  # the first failure in one line
        self._given_up = False
        self._lost_s = 0.0

    def open(self) -> None:
        """Connects."""
        self._given_up = not self._attempt(self._open)

    def deliver(self, record: Record) -> None:
        """Delivers `record` unless its cell was skipped, or counts it as undelivered."""
        if record.status != Status.skipped and not self._attempt(lambda: self._send(record)):
            self.undelivered += 1

    def relate(self, found: Sequence[RelativeSpeed], cells: Sequence[MeasuredCell] = ()) -> None:
        """Adds how the speeds of delivered records compare, and their cells, or notes that it could not."""
        if (found or cells) and not self._attempt(lambda: self._relate(found, cells)):
            self.is_unrelated = True

    def link(self, record: Record) -> str | None:
        """Where the user finds a delivered record, and the command that shows it; None if it is not there."""
        links: list[str | None] = [None]
        self._attempt(lambda: links.append(self._find(record)))
        return links[-1]

    def _attempt(self, action: Callable[[], None]) -> bool:
        if self._given_up:
            return False
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
    def _open(self) -> None: ...

    @abstractmethod
    def _send(self, record: Record) -> None: ...

    @abstractmethod
    def _relate(self, found: Sequence[RelativeSpeed], cells: Sequence[MeasuredCell]) -> None: ...

    @abstractmethod
    def _find(self, record: Record) -> str | None: ...


def one_line(error: Exception) -> str:
    """The first line of the error's message, without secrets, or the error's type if there is no message."""
    lines = clean(masked(str(error))).strip().splitlines()
    return lines[0][:300] if lines else type(error).__name__
