"""How long a cell may take (`budget_s`, `timeout_s`), and what there is time for."""

import math
import time

from accelbench.measuring.breakdown import MIN_STEPS, has_time
from accelbench.measuring.clock import NUM_CHECK_STEPS
from accelbench.measuring.runner import Ends
from accelbench.schema.cell import Cell
from accelbench.schema.vocab import SERVING

# Shares of a cell's time limit. After the first, a slow cell ends its measuring, without what is still to be measured,
# and is checked. After the second, its output is not compared any more: running into the limit would lose the record.
# The rest is for what comes before, such as starting a device, and after it.
MAX_UNTIL_MEASURED = 0.8
MAX_UNTIL_CHECKED = 0.9
NUM_PROFILED = 2  # steps that one takes as long as while its operators are profiled


class Limits:
    """Those of a cell that begins now."""

    def __init__(self, cell: Cell) -> None:
        self.cell, began_s = cell, time.perf_counter()
        self.left_out: list[str] = []  # what there was no time for, in words
        until_s = began_s + MAX_UNTIL_MEASURED * cell.timeout_s
        self.ends = Ends(began_s + (cell.budget_s or math.inf), until_s, NUM_CHECK_STEPS[cell.mode])
        self._checked_s = began_s + MAX_UNTIL_CHECKED * cell.timeout_s

    @property
    def left_s(self) -> float:
        """Seconds that are left for checks."""
        return self._checked_s - time.perf_counter()

    def has_time_for_phases(self, step_s: float) -> bool:
        """Whether the phases of steps, of `step_s` each, are to be timed: as is asked for, and if there is time."""
        num_steps = 2 * MIN_STEPS + NUM_PROFILED + self.ends.num_checks
        end_s = time.perf_counter() + num_steps * step_s
        if not self.cell.breakdown_s or self.cell.protocol in SERVING:
            return False
        if end_s <= min(self.ends.budget_s, self.ends.timeout_s) and has_time(step_s, self.cell.timeout_s):
            return True
        why = "budget_s" if end_s > self.ends.budget_s else "timeout_s"
        self.left_out.append(f"no phases of a step: {why} is too short")
        return False
