"""Tells the host of a cell's process when something is timed, so that a clock outside of the process can check it.

The host runs no user code; `judging.asked` compares what it saw with the times that the process claims.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum

# What the process says. `ready`: no code of the user has run yet; `done`: nothing more is timed, and other work on the
# machine disturbs no number from then on.
Moment = StrEnum("Moment", ["ready", "begin", "end", "done"])
# The sweep's file in memory, which stays if this process is killed; None without one.
kept_path: str | None = None
_listeners: list[Callable[[Moment], None]] = []


def keep(content: bytes) -> None:
    """Adds to that file, if there is one."""
    if kept_path is not None:
        with open(kept_path, "ab") as file:
            file.write(content)


def listen(listener: Callable[[Moment], None]) -> None:
    """Has `listener` called with each moment, until `done`."""
    _listeners.append(listener)


def say(moment: Moment) -> None:
    """Tells the listeners; `ready` before the engine runs, `done` after everything was timed."""
    for listener in _listeners:
        listener(moment)
    if moment == Moment.done:
        _listeners.clear()


@contextmanager
def timed() -> Iterator[None]:
    """A section that is timed as a whole, or whose parts are timed without gaps."""
    say(Moment.begin)
    yield
    say(Moment.end)
