"""What the process of a cell reports to its host while it measures."""

from collections.abc import Callable
from enum import StrEnum

# `done`: nothing more is timed, and other work on the machine disturbs no number from then on.
Moment = StrEnum("Moment", ["done"])
# The sweep's file in memory, which stays if this process is killed; None without one.
kept_path: str | None = None
_listeners: list[Callable[[Moment], None]] = []


def keep(content: bytes) -> None:
    """Adds to that file, if there is one."""
    if kept_path is not None:
        with open(kept_path, "ab") as file:
            file.write(content)


def listen(listener: Callable[[Moment], None]) -> None:
    """Has `listener` called once everything was timed."""
    _listeners.append(listener)


def done() -> None:
    """Calls the listeners, once."""
    for listener in _listeners:
        listener(Moment.done)
    _listeners.clear()
