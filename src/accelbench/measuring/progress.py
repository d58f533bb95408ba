"""A cell's process tells its parent, the host process, as soon as all timing is finished."""

from collections.abc import Callable

listeners: list[Callable[[], None]] = []  # called when all timing is finished: other work may then run on the machine


def done() -> None:
    """Calls the listeners, then removes them."""
    for listener in listeners:
        listener()
    listeners.clear()
