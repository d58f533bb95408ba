"""What the host sees of a cell's processes, and the end of those that a cell leaves behind."""

import contextlib
import os
import signal
import time
from collections.abc import Collection
from pathlib import Path

import psutil

from accelbench.measuring.witness import Moment
from accelbench.schema.measurement import Witnessed

KILL_S = 5.0  # a process that has not ended so long after SIGKILL hangs in a driver
POLL_S = 0.001
# Of GNU's, Intel's and LLVM's OpenMP: they bind threads, the main thread too, when the library is loaded.
BINDING = ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY", "KMP_HW_SUBSET", "KMP_PLACE_THREADS")
LATE_S = 0.05  # below it, a busy machine explains why the host woke up late
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


class Witness:
    """The host's own clock over what the process of a cell, or its first rank, times, and the process's cores."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._allowed = len(os.sched_getaffinity(0))  # inherited by the process
        self._cores = self._allowed
        self._idle: set[int] = set()  # threads of ours, which only wait
        self._began_s: float | None = None
        self._num_sections, self._timed_s, self._late_s = 0, 0.0, 0.0

    def hear(self, moment: str) -> None:
        """Notes what the process says; other words than `Moment`, and an end without a begin, count as nothing."""
        now = time.monotonic()
        if moment == Moment.ready:
            with contextlib.suppress(OSError):  # it has ended
                self._idle = set(self._threads()) - {self._pid}
        elif moment == Moment.begin:
            self._began_s = now
        elif moment == Moment.end and self._began_s is not None:
            self._timed_s += now - self._began_s
            self._num_sections += 1
            self._look_at_cores()
            self._began_s = None

    def woke_late(self, late_s: float) -> None:
        """The host was stopped, or got no processor, for so long: what it heard meanwhile has a wrong time."""
        if late_s > LATE_S:
            self._late_s += late_s

    def witnessed(self) -> Witnessed:
        return Witnessed(
            num_sections=self._num_sections,
            timed_s=self._timed_s,
            late_s=self._late_s,
            num_cores=self._cores,
            num_allowed_cores=self._allowed,
            is_bound_outside=any(os.environ.get(name) for name in BINDING),
        )

    def _threads(self) -> list[int]:
        return [int(name) for name in os.listdir(f"/proc/{self._pid}/task")]

    def _look_at_cores(self) -> None:
        """Threads may each be bound to a core of their own: those of all threads count."""
        with contextlib.suppress(OSError):  # the process, or a thread of it, has ended
            allowed = [os.sched_getaffinity(thread) for thread in self._threads() if thread not in self._idle]
            self._cores = min(self._cores, len(set().union(*allowed)))
