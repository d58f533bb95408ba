"""Makes a process end when the process that started it ends, even if that was killed."""

import ctypes
import multiprocessing as mp
import signal
import threading
from collections.abc import Callable
from multiprocessing import connection

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # <linux/prctl.h>


def end_with_parent() -> None:
    """Lets the kernel send this process SIGTERM when its parent ends. Does nothing on other systems than Linux.

    Otherwise the sweep of a killed `make repro` would run on unseen and block the next one.
    """
    _prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def adopt_orphans() -> None:
    """Makes every descendant whose parent ends a child of this process, unless an adopter is nearer to it.

    Does nothing on other systems than Linux.
    """
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> None:
    try:
        prctl = ctypes.CDLL(None).prctl
    except (OSError, AttributeError):
        return
    prctl(option, value)


def end_with_starter(end: Callable[[], None]) -> None:
    """Starts a waiting thread that calls `end` when the process ends that started this one through multiprocessing.

    The kernel's signal does not help here: the parent of this process is the forkserver, not the starter.
    """
    starter = mp.parent_process()
    assert starter is not None, "not started through multiprocessing"

    def watch() -> None:
        connection.wait([starter.sentinel])
        end()

    threading.Thread(target=watch, daemon=True).start()
