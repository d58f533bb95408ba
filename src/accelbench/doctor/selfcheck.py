"""Finds the smallest slow-down that `compare` can detect on this machine.

For this, it compares a cell with an identical cell. It runs the processes of both in a random order, as `compare` does.
"""

import io
import math
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.text import Text

from accelbench.compare.record_sets import ComparedProcess
from accelbench.compare.sureness import MARGIN, MIN_PROCESSES, compare_processes
from accelbench.errors import UserError, writing_errors
from accelbench.grid.fingerprint import fingerprint
from accelbench.isolation.hosts import Hosts
from accelbench.presentation import duration, say
from accelbench.project import Workplace, shown, workplace
from accelbench.schema.selfcheck import SELFCHECK, Detectable, MachineError, SelfCheck, percent, write_selfcheck
from accelbench.settings.compose import one_cell
from accelbench.sweep import run as sweep
from accelbench.sweep.interleaved import shuffled_runs

FOLDER = "selfcheck"  # folder of the records; reports and trackers read only the folders of sweeps
SHORT = (
    "device=cpu mode=infer data=random tracking=none breakdown_s=0 "
    "window.warmup_s=0.1 window.block_s=0.05 window.latency_s=0.02"
)
# Light: steps of tenths of a millisecond, which allocator and scheduler disturb. Heavy: steps of tens of milliseconds.
CELLS = {
    "light": f"model=mlp 'model.input_shape=[28,28]' batch_size=64 window.measure_s=0.25 {SHORT}",
    "heavy": f"model=scaling_cnn_small batch_size=4 window.measure_s=0.5 {SHORT}",
}
NUM_ROUNDS = 10  # rounds of two processes for each cell
NUM_PROCESSES = (5, NUM_ROUNDS)  # processes on each side, for which the detectable change is computed
# A difference of this many half widths is outside the interval in 80 % of cases: 1 + 0.84 / 1.96, from the normal
# distribution's quantiles at 80 % and 97.5 %.
POWER_WIDTHS = 1.43


def selfcheck(budget_s: float, console: Console, hosts: Hosts) -> int:
    """Measures the cells in rounds of two processes. Saves and prints the result. Returns 0.

    All cells together get at most `budget_s` seconds.

    Raises UserError if there was too little time, or if too many processes failed.
    """
    began_s = time.monotonic()
    began_at = datetime.now(UTC)
    place = workplace()
    asked = {name: one_cell(words) for name, words in CELLS.items()}
    runs = {name: shuffled_runs(cell, cell, NUM_ROUNDS, seed=0) for name, (cell, _) in asked.items()}
    options = replace(asked["light"][1], ends_after_s=budget_s)
    folder = place.cache / FOLDER / f"{began_at:%Y-%m-%d_%H-%M-%S}"
    say(console, f"Comparing cells with identical copies of themselves, for at most {duration(budget_s)} ...")
    quiet = Console(file=io.StringIO())  # the speeds of single processes are not shown
    cells = [cell for of_cell in runs.values() for cell in of_cell.cells]
    records = sweep.run(cells, options, quiet, folder, hosts=hosts, show=lambda result: None).records
    errors = {}
    for name, (cell, _) in asked.items():
        sides: tuple[list[ComparedProcess], list[ComparedProcess]] = ([], [])
        for record in records:
            if record.cell.model == cell.model:
                sides[runs[name].is_second[record.cell.repeat]].append(ComparedProcess.of(record))
        errors[name] = machine_error(*sides)
    check = SelfCheck(measured_at=began_at.isoformat(), took_s=time.monotonic() - began_s, cells=errors)
    with writing_errors(shown(place.cache / SELFCHECK)):
        write_selfcheck(place.cache, fingerprint()["machine"], check)
    show(check, place, folder, console)
    return 0


def machine_error(first: Sequence[ComparedProcess], second: Sequence[ComparedProcess]) -> MachineError:
    """Compares two sets of processes that ran the same cell. Raises UserError if too few processes were measured."""
    detectable = []
    for num in NUM_PROCESSES:
        ratio = compare_processes(first[:num], second[:num])
        if ratio.low is not None and ratio.high is not None:
            width = math.log(ratio.high / ratio.low) / 2
            slowdown = max(MARGIN, -math.expm1(-POWER_WIDTHS * width))  # a smaller slow-down counts as none
            detectable.append(Detectable(num_processes=num, slowdown=slowdown))
    num = min(ratio.num_first, ratio.num_second)
    if ratio.low is None or ratio.high is None:
        problem = f"{num} processes of a copy were measured, but {MIN_PROCESSES} are needed"
        for process in [*first, *second]:
            if not process.rates:
                raise UserError(f"{problem}. One ended as {process.outcome}: {process.reason or 'see its record'}")
        raise UserError(f"--budget: {problem}: set a longer time")
    return MachineError(num_rounds=num, low=ratio.low - 1, high=ratio.high - 1, detectable=detectable)


def show(check: SelfCheck, place: Workplace, folder: Path, console: Console) -> None:
    """Prints the result. The first line states which slow-down is detectable."""
    console.print()
    console.print(Text(check.sentence, "bold"))
    for name, cell in check.cells.items():
        needed = ", ".join(f"{percent(row.slowdown)} with {row.num_processes}" for row in cell.detectable)
        apart = f"{100 * cell.low:+.1f} to {100 * cell.high:+.1f} %"
        console.print(
            f"{name} cell, {cell.num_rounds} rounds: two copies differ by {apart}. Detectable slow-down: {needed}"
        )
    say(console, f"This result is in {shown(place.cache / SELFCHECK)}, for reports. Records: {shown(folder)}")
