"""Measures what this machine's verdicts are worth: cells against themselves, and against ones of a known slow-down."""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from accelbench.compare.machine_error import MIN_ROUNDS, Round, machine_error
from accelbench.errors import UserError, writing_errors
from accelbench.grid.fingerprint import fingerprint
from accelbench.grid.plan import Prepared
from accelbench.isolation.hosts import Hosts
from accelbench.judging import disturbed
from accelbench.judging.disturbed import DISTURBED
from accelbench.judging.row import steady_rates
from accelbench.presentation import duration, say
from accelbench.project import Workplace, shown, workplace
from accelbench.schema.cell import Cell
from accelbench.schema.plan_file import WantedCell
from accelbench.schema.selfcheck import SELFCHECK, Estimate, SelfCheck, percent, write_selfcheck
from accelbench.schema.vocab import Status
from accelbench.settings.compose import one_cell
from accelbench.sweep.context import SweepContext
from accelbench.sweep.session import Session

SLOWDOWN = 0.05
FOLDER = "selfcheck"  # of the records: not among those of sweeps, which reports and trackers read
NETWORK = "accelbench.engines.lightning.slowed"
WORDS = (
    f"model=custom model.target={NETWORK}.Slowed model.batch={NETWORK}.batch mode=infer tracking=none breakdown_s=0 "
    "model.args.size={size} model.args.slowdown=0.0 model.batch_args.size={size} batch_size={batch_size} "
    "window.warmup_s=0.1 window.block_s=0.05 window.measure_s={measure_s} window.latency_s=0.02"
)
# Steps of tenths of a millisecond, which the allocator and the scheduler disturb; and steps of tens.
CELLS = {
    "light": {"size": "light", "batch_size": 64, "measure_s": 0.25},
    "heavy": {"size": "heavy", "batch_size": 16, "measure_s": 0.5},
}


def selfcheck(budget_s: float, console: Console, hosts: Hosts, now: Callable[[], float] = time.monotonic) -> int:
    """Measures rounds of each cell until the time is spent, keeps and prints what they say, and returns 0.

    `now` is the clock of the budget, in seconds. Raises UserError: too little time, or processes failed.
    """
    began_s, began_at = now(), datetime.now(UTC)
    place = workplace()
    cells = {name: one_cell(WORDS.format(**settings)) for name, settings in CELLS.items()}
    folder = place.cache / FOLDER / f"{began_at:%Y-%m-%d_%H-%M-%S}"
    context = SweepContext(next(iter(cells.values()))[1], console, hosts, place, folder, folder.name)
    with context.alone():
        sides = {}
        for name, (cell, _) in cells.items():
            model = replace(cell.model, args={**cell.model.args, "slowdown": SLOWDOWN})
            sides[name] = (cell, replace(cell, model=model))
        ready = context.prepare([cell for pair in sides.values() for cell in pair])
        measured = _Measured(context, ready, sides)
        measured.run(budget_s, lambda: budget_s - (now() - began_s))
    found = _judged(measured, began_at, now() - began_s)
    with writing_errors(shown(place.cache / SELFCHECK)):
        write_selfcheck(place.cache, fingerprint()["machine"], found)
    show(found, place, folder, console)
    return 0


class _Measured:
    """The processes of a selfcheck."""

    def __init__(self, context: SweepContext, ready: Prepared, sides: dict[str, tuple[Cell, Cell]]) -> None:
        self.context, self.ready, self.sides = context, ready, sides
        self.wanted: list[WantedCell] = []  # in their order; whole, a day's records would fill the memory
        self.failures: list[str] = []  # why those don't count that did not end ok, or were disturbed
        self.rounds: dict[str, list[Round]] = {name: [] for name in sides}

    def run(self, budget_s: float, left_s: Callable[[], float]) -> None:
        """Measures rounds until there is no time for another one."""
        session = Session(self.context, self.ready, self.ready.planned, is_brief=True)
        self.context.say(f"Measuring what verdicts are worth here, for {duration(budget_s)} ...")
        dice, round_s = random.Random(0), 0.0  # how long a round takes; the first one waits for the framework
        try:
            with session:
                while left_s() > round_s or not self.wanted:
                    is_first, start_s = not self.wanted, left_s()
                    for name, (plain, slowed) in self.sides.items():
                        self._round(session, name, dice.sample([plain, plain, slowed], 3))
                    round_s = 0.0 if is_first else start_s - left_s()
        finally:
            self.context.write_plan(self.wanted)

    @property
    def num_rounds(self) -> int:
        return min(len(rounds) for rounds in self.rounds.values())

    def _round(self, session: Session, name: str, cells: Sequence[Cell]) -> None:
        """Measures a round's processes in this order; it counts if all of them end ok and undisturbed."""
        rates: dict[bool, list[list[float]]] = {True: [], False: []}
        for cell in cells:
            record = session.measure(self.ready.process(replace(cell, repeat=len(self.wanted))))
            self.wanted.append(WantedCell(record.cell, record.name, record.label))
            if (why := disturbed.reason(record)) is not None:
                self.failures.append(f"{DISTURBED}: {why}")
            elif record.status != Status.ok:
                self.failures.append(f"{record.status}: {record.reason}")
            elif record.measurement is not None:
                rates[cell == self.sides[name][1]].append(steady_rates(record.measurement))
        if len(rates[False]) == 2 and rates[True] and all(rates[False]) and all(rates[True]):
            self.rounds[name].append(Round(plain=(rates[False][0], rates[False][1]), slowed=rates[True][0]))


def _judged(measured: _Measured, began_at: datetime, took_s: float) -> SelfCheck:
    fewest = measured.num_rounds
    if fewest < MIN_ROUNDS:
        bad = f"; {len(measured.failures)} processes do not count: {measured.failures[0]}" if measured.failures else ""
        raise UserError(f"--budget: {fewest} rounds were measured, and {MIN_ROUNDS} are needed: give it more time{bad}")
    cells = {name: machine_error(rounds, SLOWDOWN) for name, rounds in measured.rounds.items()}
    return SelfCheck(measured_at=began_at.isoformat(), took_s=took_s, cells=cells)


def show(found: SelfCheck, place: Workplace, folder: Path, console: Console) -> None:
    """Prints what was found: the answer in its first line."""
    console.print()
    console.print(Text(found.sentence, "bold"))
    table = Table("", *(f"{name} cell" for name in found.cells), box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name, texts in _lines(found):
        table.add_row(name, *texts)
    console.print(table)
    kept = f"Kept in {shown(place.cache / SELFCHECK)}, which the report reads."
    say(console, f"{kept} Records: {shown(folder)}")


def _lines(found: SelfCheck) -> Iterator[tuple[str, list[str]]]:
    cells = list(found.cells.values())
    yield "rounds", [str(cell.num_rounds) for cell in cells]
    yield "equal cells said to differ", [_estimate(cell.false_verdicts) for cell in cells]
    for each in zip(*(cell.detectable for cell in cells), strict=True):
        texts = [f"{percent(found.slowdown)} slower" for found in each]
        yield f"{each[0].num_processes} a side find, 4 times in 5", texts
    yield f"{100 * SLOWDOWN:g} % slower by us, measured", [_estimate(cell.measured) for cell in cells]
    yield "spread of processes", [f"{100 * cell.spread:.1f} %" for cell in cells]


def _estimate(found: Estimate) -> str:
    value, low, high = (f"{100 * each:.1f}" for each in (found.value, found.low, found.high))
    return f"{value} % ({low} to {high})"
