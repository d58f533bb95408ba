"""The processes below a process: their list, and the end of those that a cell leaves behind."""

import contextlib
import os
import signal
import time
from collections.abc import Collection
from pathlib import Path

import psutil

KILL_S = 5.0  # a process that has not ended so long after SIGKILL hangs in a driver
POLL_S = 0.001
# The kernel's list of children costs some microseconds per thread. psutil, for kernels built without that list
# (CONFIG_PROC_CHILDREN), reads every process of the machine.
_KERNEL_LISTS_CHILDREN = Path(f"/proc/self/task/{os.getpid()}/children").exists()


def children(pid: int) -> list[int]:
    """The process ids of the children, zombies included; empty if the process has ended."""
    found: list[int] = []
    if not _KERNEL_LISTS_CHILDREN:
        with contextlib.suppress(psutil.NoSuchProcess):
            found += [child.pid for child in psutil.Process(pid).children()]
        return found
    # A thread or process may end meanwhile: then it has no children.
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            path = f"/proc/{pid}/task/{thread}/children"
            with contextlib.suppress(OSError), open(path, "rb", buffering=0) as file:  # unbuffered: half the time
                found += [int(word) for word in file.read().split()]
    return found


def descendants(pid: int) -> list[int]:
    """The process ids of all descendants, zombies included."""
    found, waiting = [], [pid]
    while waiting:
        below = children(waiting.pop())
        found += below
        waiting += below
    return found


def end_orphans(own: Collection[int]) -> None:
    """Kills and reaps every child of this process that is not one of `own`, until there is none, or for `KILL_S`.

    Needs `lifeline.adopt_orphans`: then these are what a cell's process left behind, in whatever session. The children
    of a killed one become children of this process, and are found in the next round.
    """
    deadline = time.monotonic() + KILL_S
    while orphans := [pid for pid in children(os.getpid()) if pid not in own]:
        for pid in orphans:
            with contextlib.suppress(PermissionError):  # it has become another user's
                os.kill(pid, signal.SIGKILL)
        ended = [pid for pid in orphans if os.waitpid(pid, os.WNOHANG)[0]]
        if time.monotonic() > deadline:
            return
        if not ended:
            time.sleep(POLL_S)
