"""The trackers of a sweep: opened before the first of several cells, or else when all were measured."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from accelbench.answers.cells import cells_of
from accelbench.answers.process import Process
from accelbench.errors import UnknownChoiceError
from accelbench.schema.record import Record
from accelbench.sinks.relative_speed import relative_speeds
from accelbench.sinks.sink import Sink

TRACKING = ("mlflow", "none")


class Delivery:
    """Delivers records to the trackers of one sweep, in the order in which they were measured.

    `tracking` is one of `TRACKING`, `root` the folder of MLflow's store.
    """

    def __init__(self, tracking: str, root: Path) -> None:
        self._tracking, self._root = tracking, root
        self._sinks: list[Sink] | None = None
        self._waiting: list[Record] = []

    def __enter__(self) -> "Delivery":
        return self

    def __exit__(self, *error: Any) -> None:
        self.deliver()

    def open(self) -> None:
        """Opens the trackers: MLflow's import and its database take seconds."""
        self._sinks = make_sinks(self._tracking, self._root)
        for sink in self._sinks:
            sink.open()

    def add(self, record: Record) -> None:
        """Keeps the record for `deliver` or `finish`."""
        self._waiting.append(record)

    def deliver(self) -> None:
        """Delivers the records that were kept if the trackers are open. Not to be called while a cell is timed."""
        while self._sinks is not None and self._waiting:
            record = self._waiting.pop(0)
            for sink in self._sinks:
                sink.deliver(record)

    def finish(self) -> None:
        """Delivers the records that were kept."""
        if self._waiting and self._sinks is None:
            self.open()
        self.deliver()

    def relate(self, processes: Iterable[Process]) -> None:
        """Adds to the runs of all of a sweep's processes how the speeds of their cells compare, and these cells."""
        cells = cells_of(processes) if self._sinks else []
        found, several = relative_speeds(cells), [each for each in cells if each.num_processes > 1]
        for sink in self._sinks or ():
            sink.relate(found, several)

    def links(self, record: Record) -> dict[str, str]:
        """Tracker -> where it shows the run of a delivered record. Each link is a query."""
        found = {sink.name: sink.link(record) for sink in self._sinks or ()}
        return {name: link for name, link in found.items() if link is not None}

    def losses(self) -> list[str]:
        """A line for each tracker that some records, or how their speeds compare, did not reach."""
        lines = []
        for sink in self._sinks or ():
            lost = f"{sink.undelivered} runs" if sink.undelivered else "How the runs' speeds compare"
            if sink.undelivered or sink.is_unrelated:
                delivers = "delivers them" if sink.undelivered else "adds it"
                lines.append(f"{lost} did not reach {sink.name} ({sink.problem}): `accelbench sync` {delivers}.")
        return lines


def make_sinks(tracking: str, root: Path) -> list[Sink]:
    """The sinks of a sweep, not opened yet; `root` is the folder of the store.

    Raises:
        UnknownChoiceError: `tracking` is not one of `TRACKING`.
    """
    if tracking not in TRACKING:
        raise UnknownChoiceError("tracking", tracking, TRACKING)
    if tracking == "none":
        return []
    from accelbench.sinks.mlflow import MLflowSink  # its import takes over a second

    return [MLflowSink(root)]
