"""Calls that may take too long for the time that is left."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

Result = TypeVar("Result")


class NotInTimeError(Exception):
    """A call did not end in time."""


def in_time(call: Callable[[], Result], left_s: float) -> Result:
    """What `call` returns or raises.

    Args:
        call: may take any time. It runs in a thread, which is left behind if it is late, and ends with the process.
        left_s: seconds that it may take.

    Raises:
        NotInTimeError: it took longer.
    """
    found: Future[Result] = Future()

    def run() -> None:
        try:
            found.set_result(call())
        except BaseException as error:
            found.set_exception(error)

    if left_s > 0:
        threading.Thread(target=run, daemon=True).start()
        if wait([found], left_s).done:
            return found.result()
    raise NotInTimeError
