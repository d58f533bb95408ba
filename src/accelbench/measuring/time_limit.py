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
    outcome: Future[Result] = Future()

    def run() -> None:
        try:
            outcome.set_result(call())
        except BaseException as error:
            outcome.set_exception(error)

    if left_s > 0:
        threading.Thread(target=run, daemon=True).start()
        if wait([outcome], left_s).done:
            return outcome.result()
    raise NotInTimeError
