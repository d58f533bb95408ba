"""How small a difference this machine can tell: cells against themselves, in interleaved rounds, as in `compare`."""

import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.text import Text

from accelbench.compare.sureness import MARGIN, MIN_PROCESSES
from accelbench.errors import UserError, writing_errors
from accelbench.grid.fingerprint import fingerprint
from accelbench.grid.plan import Prepared
from accelbench.isolation.hosts import Hosts
from accelbench.judging.verdict import DISTURBED, why_disturbed
from accelbench.presentation import duration, say
from accelbench.project import Workplace, shown, workplace
from accelbench.schema.cell import Cell
from accelbench.schema.plan_file import WantedCell
from accelbench.schema.selfcheck import SELFCHECK, Detectable, MachineError, SelfCheck, percent, write_selfcheck
from accelbench.schema.vocab import Status
from accelbench.settings.compose import one_cell
from accelbench.stats.bootstrap import Floats, difference_interval
from accelbench.sweep.context import SweepContext
from accelbench.sweep.session import Session

FOLDER = "selfcheck"  # of the records: not among those of sweeps, which reports and trackers read
SHORT = (
    "device=cpu mode=infer data=random tracking=none breakdown_s=0 "
    "window.warmup_s=0.1 window.block_s=0.05 window.latency_s=0.02"
)
# Steps of tenths of a millisecond, which the allocator and the scheduler disturb; and steps of tens.
CELLS = {
    "light": f"model=mlp 'model.input_shape=[28,28]' batch_size=64 window.measure_s=0.25 {SHORT}",
    "heavy": f"model=scaling_cnn_small batch_size=4 window.measure_s=0.5 {SHORT}",
}
NUM_PROCESSES = (5, 10, 20)  # a side, for which the smallest change is computed
MIN_ROUNDS = 2 * MIN_PROCESSES
POWER = 0.8

# The logarithms of the two processes' samples/s.
Round = tuple[float, float]


def selfcheck(budget_s: float, console: Console, hosts: Hosts, now: Callable[[], float] = time.monotonic) -> int:
    """Measures rounds of each cell until the time is spent, keeps and prints what they show, and returns 0.

    `now` is the clock of the budget, in seconds. Raises UserError: too little time, or processes failed.
    """
    began_s, began_at = now(), datetime.now(UTC)
    place = workplace()
    cells = {name: one_cell(words) for name, words in CELLS.items()}
    folder = place.cache / FOLDER / f"{began_at:%Y-%m-%d_%H-%M-%S}"
    context = SweepContext(next(iter(cells.values()))[1], console, hosts, place, folder, folder.name)
    with context.alone():
        ready = context.prepare([cell for cell, _ in cells.values()])
        measured = _Measured(context, ready, {name: cell for name, (cell, _) in cells.items()})
        measured.run(budget_s, lambda: budget_s - (now() - began_s))
    found = SelfCheck(measured_at=began_at.isoformat(), took_s=now() - began_s, cells=measured.errors())
    with writing_errors(shown(place.cache / SELFCHECK)):
        write_selfcheck(place.cache, fingerprint()["machine"], found)
    show(found, place, folder, console)
    return 0


class _Measured:
    """The processes of a selfcheck."""

    def __init__(self, context: SweepContext, ready: Prepared, cells: dict[str, Cell]) -> None:
        self.context, self.ready, self.cells = context, ready, cells
        self.wanted: list[WantedCell] = []  # in their order; whole, a day's records would fill the memory
        self.failures: list[str] = []  # why processes do not count
        self.rounds: dict[str, list[Round]] = {name: [] for name in cells}

    def run(self, budget_s: float, left_s: Callable[[], float]) -> None:
        """Measures rounds until there is no time for another one."""
        session = Session(self.context, self.ready, self.ready.planned, is_brief=True)
        self.context.say(f"Measuring cells against themselves, for {duration(budget_s)} ...")
        dice, round_s = random.Random(0), 0.0  # how long a round takes; the first one waits for the framework
        try:
            with session:
                while left_s() > round_s or not self.wanted:
                    is_first, start_s = not self.wanted, left_s()
                    for name, cell in self.cells.items():
                        speeds = [self._speed(session, cell), self._speed(session, cell)]
                        dice.shuffle(speeds)
                        first, second = speeds
                        if first is not None and second is not None:
                            self.rounds[name].append((first, second))
                    round_s = 0.0 if is_first else start_s - left_s()
        finally:
            self.context.write_plan(self.wanted)

    def _speed(self, session: Session, cell: Cell) -> float | None:
        """The logarithm of a process' median samples/s; None if it does not count."""
        record = session.measure(self.ready.process(replace(cell, repeat=len(self.wanted))))
        self.wanted.append(WantedCell(record.cell, record.name, record.label))
        if (why := why_disturbed(record)) is not None:
            self.failures.append(f"{DISTURBED}: {why}")
        elif record.status != Status.ok or record.measurement is None:
            self.failures.append(f"{record.status}: {record.reason}")
        elif rates := record.measurement.steady_rates:
            return math.log(float(np.median(rates)))
        return None

    def errors(self) -> dict[str, MachineError]:
        """What the rounds of each cell show. Raises UserError: they are too few."""
        fewest = min(len(rounds) for rounds in self.rounds.values())
        if fewest < MIN_ROUNDS:
            bad = f"; {len(self.failures)} processes do not count: {self.failures[0]}" if self.failures else ""
            needed = f"{fewest} rounds were measured, and {MIN_ROUNDS} are needed: give it more time"
            raise UserError(f"--budget: {needed}{bad}")
        return {name: machine_error(rounds) for name, rounds in self.rounds.items()}


def machine_error(rounds: Sequence[Round]) -> MachineError:
    """How far the two sides of these rounds, in the order in which they ran, are apart."""
    first, second = np.array(rounds).T
    low, high = difference_interval(first, second)
    numbers = [num for num in NUM_PROCESSES if num <= len(rounds)]
    detectable = [Detectable(num_processes=num, slowdown=_detectable(first, second, num)) for num in numbers]
    return MachineError(num_rounds=len(rounds), low=math.expm1(low), high=math.expm1(high), detectable=detectable)


def _detectable(first: Floats, second: Floats, num: int) -> float:
    """The slow-down that `POWER` of all comparisons of `num` successive rounds would call slower."""
    # A slow-down moves an interval as a whole on the logarithmic scale: its upper bound has to come below 0, and its
    # lower one out of the margin (`compare.sureness`).
    needed = []
    for start in range(len(first) - num + 1):
        low, high = difference_interval(first[start : start + num], second[start : start + num])
        needed.append(max(high, low + math.log1p(MARGIN)))
    return max(0.0, -math.expm1(-float(np.quantile(needed, POWER))))


def show(found: SelfCheck, place: Workplace, folder: Path, console: Console) -> None:
    """Prints what was found: the answer in its first line."""
    console.print()
    console.print(Text(found.sentence, "bold"))
    for name, cell in found.cells.items():
        needed = ", ".join(f"{percent(each.slowdown)} with {each.num_processes}" for each in cell.detectable)
        apart = f"{100 * cell.low:+.1f} to {100 * cell.high:+.1f} %"
        console.print(f"{name} cell: {cell.num_rounds} rounds, itself over itself {apart}; differences: {needed}")
    kept = f"Kept in {shown(place.cache / SELFCHECK)}, which the report reads."
    say(console, f"{kept} Records: {shown(folder)}")
