"""Waits until other programs leave the machine's cores alone."""

import math
import os
import time
from collections.abc import Callable

from accelbench.devices.proc import CpuTimes, cpu_times
from accelbench.judging.disturbed import ALLOWED
from accelbench.judging.load import MIN_OTHERS, MIN_STEAL

# On a machine that is never quiet, such as a shared one that runs tests, `allowed` has cells count although other
# programs take their cores, and nothing waits. A variable, since this is the machine's nature and no cell's or suite's.
VARIABLE = "ACCELBENCH_BUSY"
LOOK_S = 1.0  # long enough for the kernel's ticks of 10 ms


def is_allowed() -> bool:
    """Whether cells count although the machine is busy."""
    return os.environ.get(VARIABLE) == ALLOWED


class Quiet:
    """Waits for a quiet machine: where that was in vain, half as long the next time, so that a sweep has an end.

    `quiet_s` is the longest first wait; with 0 nothing waits.
    """

    def __init__(
        self,
        quiet_s: float,
        say: Callable[[str], None],
        look: Callable[[], CpuTimes] = lambda: cpu_times(os.sched_getaffinity(0)),
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.patience_s = quiet_s
        self._say, self._look, self._sleep = say, look, sleep

    def comes(self, why: str, left_s: float = math.inf) -> bool:
        """Waits until the machine is quiet for a second, at most `left_s`; returns whether it became quiet in time.

        The user is told `why` it waits: what was disturbed, and by what.
        """
        limit_s = min(self.patience_s, left_s)
        if limit_s < LOOK_S:
            return False
        self._say(f"{why}: waits up to {limit_s:.0f} s for a quiet machine, to repeat it ...")
        waited_s, before = 0.0, self._look()
        while waited_s + LOOK_S <= limit_s:
            self._sleep(LOOK_S)
            waited_s += LOOK_S
            before, earlier = self._look(), before
            used, stolen = ((after - start) / LOOK_S for after, start in zip(before[:2], earlier[:2], strict=True))
            if used < MIN_OTHERS and stolen < MIN_STEAL:
                return True
        self.patience_s /= 2
        return False
