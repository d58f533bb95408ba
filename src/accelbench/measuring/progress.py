"""What the process of a cell reports to its host while it measures."""

from collections.abc import Callable

_listeners: list[Callable[[], None]] = []


def listen(listener: Callable[[], None]) -> None:
    """Has `listener` called once everything was timed: other work on the machine disturbs no number from then on."""
    _listeners.append(listener)


def done() -> None:
    """Calls the listeners, once."""
    for listener in _listeners:
        listener()
    _listeners.clear()
