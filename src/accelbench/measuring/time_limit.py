"""A limit on the time of a call that nothing can interrupt."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar


class NotInTimeError(Exception):
    """A call did not end in time."""


Result = TypeVar("Result")


def in_time(call: Callable[[], Result], left_s: float) -> Result:
    """What `call` returns or raises, or a NotInTimeError after `left_s`: its thread is left behind."""
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
