"""What the process of a cell reports to its host while it measures."""

from collections.abc import Callable

# The sweep's file in memory, which stays if this process is killed; None without one.
kept_path: str | None = None
_listeners: list[Callable[[], None]] = []


def keep(content: bytes) -> None:
    """Adds to that file, if there is one."""
    if kept_path is not None:
        with open(kept_path, "ab") as file:
            file.write(content)


def listen(listener: Callable[[], None]) -> None:
    """Has `listener` called once everything was timed: other work on the machine disturbs no number from then on."""
    _listeners.append(listener)


def done() -> None:
    """Calls the listeners, once."""
    for listener in _listeners:
        listener()
    _listeners.clear()
