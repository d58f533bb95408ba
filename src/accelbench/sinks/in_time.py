"""Limits of a call to a server: a time limit of each read alone never ends an answer that never ends."""

import resource
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

CALL_S = 20.0  # of one call, all of its answer included
TICK_S = 0.25  # between two looks at the limits
MAX_KB = 500_000  # by which the memory may grow: an honest answer has some megabytes


class InTime:
    """An object each of whose methods has the limits of `limited`."""

    def __init__(self, inner: object) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def called(*args: Any, **named: Any) -> Any:
            with limited(CALL_S):
                return getattr(self._inner, name)(*args, **named)

        return called


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Ends the block after some seconds, or when memory grows by `MAX_KB`; only in the main thread, which gets signals.

    Raises:
        TimeoutError: the block took longer, or too much memory. A library may make another error of it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    began_s, peak_kb = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def look(*_: object) -> None:
        if time.monotonic() - began_s > seconds:
            raise TimeoutError(f"no whole answer within {seconds:g} s")
        if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak_kb > MAX_KB:
            raise TimeoutError("an answer that fills the memory")

    before = signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, TICK_S, TICK_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
