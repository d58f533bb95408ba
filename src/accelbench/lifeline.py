"""Makes processes end with the one that started them, even if that was killed."""

import contextlib
import ctypes
import multiprocessing as mp
import os
import signal
import threading
import time
from collections.abc import Callable
from multiprocessing import connection
from pathlib import Path

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # <linux/prctl.h>
MARKED_S, MARKED_POLL_S = 5.0, 0.01


def end_with_parent() -> None:
    """Lets the kernel send this process SIGTERM when its parent ends.

    Otherwise the sweep of a killed `make repro` would run on unseen and block the next one.
    """
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def adopt_orphans() -> None:
    """Makes every descendant whose parent ends a child of this process, unless an adopter is nearer."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)


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


def end_marked(mark: str) -> None:
    """Kills every process whose environment contains `mark`, until there is none, or for `MARKED_S`.

    Processes inherit their environment, so this also finds those whose ancestors have ended. It reads the environment
    of every process on the machine, which takes milliseconds.
    """
    deadline = time.monotonic() + MARKED_S
    has_found = True
    while has_found and time.monotonic() < deadline:
        has_found = False
        for path in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):  # it has ended, or is another user's
                if mark.encode(errors="surrogateescape") in path.read_bytes():
                    has_found = True
                    os.kill(int(path.parent.name), signal.SIGKILL)
        if has_found:
            time.sleep(MARKED_POLL_S)
