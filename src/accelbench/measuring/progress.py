"""A cell's process tells its parent, the host process, as soon as all timing is finished."""

from collections.abc import Callable

_listeners: list[Callable[[], None]] = []


def listen(listener: Callable[[], None]) -> None:
    """Registers a function that is called when all timing is finished. Other work may then run on the machine."""
    _listeners.append(listener)


def done() -> None:
    """Calls the listeners, then removes them."""
    for listener in _listeners:
        listener()
    _listeners.clear()
