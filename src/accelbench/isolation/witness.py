"""The host as a witness of a cell: its own clock over what the cell's process times, and the process's cores."""

import contextlib
import os
import time

from accelbench.measuring.witness import Moment
from accelbench.schema.conditions import Witnessed

# Of GNU's, Intel's and LLVM's OpenMP: they bind threads, the main thread too, when the library is loaded.
BINDING = ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY", "KMP_HW_SUBSET", "KMP_PLACE_THREADS")
LATE_S = 0.05  # below it, a busy machine explains why the host woke up late


class Witness:
    """What the host sees of the process of a cell, or of its first rank, which times it."""

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
