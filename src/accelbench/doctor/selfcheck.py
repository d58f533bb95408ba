"""Finds the smallest slow-down that `compare` can detect on this machine.

For this, it compares a cell with an identical cell. It runs the processes of both in a random order, as `compare` does.
"""

import io
import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from rich.console import Console

from accelbench.compare.record_sets import ComparedProcess
from accelbench.compare.sureness import CONFIDENCE, MARGIN, MIN_PROCESSES, compare_processes
from accelbench.errors import UserError
from accelbench.isolation.hosts import Hosts
from accelbench.presentation import duration, say
from accelbench.project import shown, workplace
from accelbench.settings.compose import one_cell
from accelbench.stats.means import student_quantile
from accelbench.sweep import run as sweep
from accelbench.sweep.interleaved import shuffled_runs

FOLDER = "selfcheck"  # folder of the records; reports and trackers read only the folders of sweeps
# Its steps take tenths of a millisecond, which allocator and scheduler disturb.
CELL = (
    "model=mlp 'model.input_shape=[28,28]' batch_size=64 device=cpu mode=infer data=random tracking=none "
    "breakdown_s=0 window.warmup_s=0.1 window.measure_s=0.25 window.block_s=0.05 window.latency_s=0.02"
)
NUM_ROUNDS = 10  # rounds of two processes
# A difference of this many half widths is outside the interval in 80 % of cases: 1 + 0.84 / 1.96, from the normal
# distribution's quantiles at 80 % and 97.5 %.
POWER_WIDTHS = 1.43


def selfcheck(budget_s: float, console: Console, hosts: Hosts) -> int:
    """Measures the cell in rounds of two processes, for at most `budget_s` seconds. Prints the result. Returns 0.

    Raises UserError if there was too little time, or if too many processes failed.
    """
    cell, options = one_cell(CELL)
    runs = shuffled_runs(cell, cell, NUM_ROUNDS, seed=0)
    options = replace(options, ends_after_s=budget_s)
    folder = workplace().cache / FOLDER / f"{datetime.now():%Y-%m-%d_%H-%M-%S}"
    say(console, f"Comparing a cell with an identical copy of itself, for at most {duration(budget_s)} ...")
    quiet = Console(file=io.StringIO())  # the speeds of single processes are not shown
    result = sweep.run(runs.cells, options, quiet, folder, hosts=hosts, show=lambda result: None)
    sides = (list(map(ComparedProcess.of, side)) for side in runs.sides(result.records))
    say(console, f"\n{detectable(*sides)}\nRecords: {shown(folder)}")
    return 0


def detectable(first: Sequence[ComparedProcess], second: Sequence[ComparedProcess]) -> str:
    """Compares two sets of processes that ran the same cell. Returns the smallest slow-downs that can be detected.

    Raises UserError if too few processes were measured.
    """
    ratio = compare_processes(first, second)
    num = min(ratio.num_first, ratio.num_second)
    if ratio.low is None or ratio.high is None:
        problem = f"{num} processes of a copy were measured, but {MIN_PROCESSES} are needed"
        for process in [*first, *second]:
            if not process.rates:
                raise UserError(f"{problem}. One ended as {process.outcome}: {process.reason or 'see its record'}")
        raise UserError(f"--budget: {problem}: set a longer time")
    width = math.log(ratio.high / ratio.low) / 2
    slowdowns = []
    for fewer in dict.fromkeys((MIN_PROCESSES, num)):
        # The width with fewer processes, from the spread of all. That of the first five would be known too roughly.
        wider = _width(fewer) / _width(num) * width
        slowdown = max(MARGIN, -math.expm1(-POWER_WIDTHS * wider))  # a smaller slow-down counts as none
        slowdowns.append(f"{100 * slowdown:.1f} % with {fewer} processes")
    apart = f"{100 * (ratio.low - 1):+.1f} to {100 * (ratio.high - 1):+.1f} %"
    return (
        f"On this CPU, 4 of 5 comparisons detect that a setting is slower by {', '.join(slowdowns)} of each setting.\n"
        f"The two copies differ by {apart}."
    )


def _width(num: int) -> float:
    """Returns the half width of an interval from `num` processes a side, in standard deviations of a process."""
    return student_quantile(2 * num - 2, CONFIDENCE) * math.sqrt(2 / num)
