"""Processes that end when their parent does, however that ends."""

import ctypes
import multiprocessing as mp
import signal
import threading
from collections.abc import Callable
from multiprocessing import connection

PR_SET_PDEATHSIG = 1  # <linux/prctl.h>


def end_with_parent() -> None:
    """Has the kernel send this process SIGTERM when its parent ends; where it is not Linux, does nothing.

    A killed `make repro` would leave its sweep running, unseen, in the way of the next one.
    """
    try:
        prctl = ctypes.CDLL(None).prctl
    except (OSError, AttributeError):
        return
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def end_with_starter(end: Callable[[], None]) -> None:
    """Has a thread, asleep, call `end` when the process ends that started this one through multiprocessing.

    The kernel's signal would come when the server that forks ends, not when who asked it to does.
    """
    starter = mp.parent_process()
    assert starter is not None, "this is the process that the user started"

    def watch() -> None:
        connection.wait([starter.sentinel])
        end()

    threading.Thread(target=watch, daemon=True).start()
