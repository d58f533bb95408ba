"""The common part of race.py and serving.py. A search runs alone on the machine. Each process leaves a record."""

import time
from collections.abc import Callable, Iterable, Sequence

from accelbench.errors import Interrupted, UserError
from accelbench.grid.plan import Planned
from accelbench.judging.verdict import why_disturbed
from accelbench.lifeline import ending_as_ctrl_c
from accelbench.presentation import counted, duration
from accelbench.project import shown
from accelbench.schema.cell import Cell
from accelbench.schema.plan_file import WantedCell
from accelbench.schema.record import Record
from accelbench.sweep import run
from accelbench.sweep.session import Session
from accelbench.sweep.terminal import say_skipped


class BaseSearch:
    """A search among the planned cells of a session."""

    now = staticmethod(time.monotonic)  # the clock for the budget, in seconds

    def __init__(self, session: Session, budget_s: float) -> None:
        self.session = session
        self.ready = ready = session.ready
        self.budget_s = budget_s
        self.ends_s = self.now() + budget_s
        self.asked = [item for item in ready.planned if item.skip_reason is None]
        self.skipped = [item for item in ready.planned if item.skip_reason is not None]
        self.records: dict[str, Record] = {}  # name -> record, in the order of the processes

    def race(self) -> None:
        """Runs processes until the best cell is known, or the time is up."""
        raise NotImplementedError

    def show(self) -> int:
        """Prints the answer. Returns the exit status, which is 1 if there is no answer."""
        raise NotImplementedError

    def run(self, what: str) -> None:
        self.write_plan([])
        self.session.say(f"Searching {what} for {duration(self.budget_s)} ...")
        say_skipped([str(item.skip_reason) for item in self.skipped], self.session.console)
        with self.session.measuring(self.ready.planned, is_brief=True):
            for item in self.skipped:
                self.session.measure(item)
            self.race()

    def earlier(self, items: Sequence[Planned]) -> dict[str, Record]:
        """Returns the records of these processes, by name, if earlier searches in this folder made them."""
        done, _ = run.known(self.session, items)
        limits_s = {item.record_name: item.cell.timeout_s for item in items}
        records = {}
        for record in done:
            # A process that was disturbed, or that the end of a budget cut off, is measured again.
            if not why_disturbed(record) and not record.was_cut(limits_s[record.name]):
                records[record.name] = record
        return records

    def took_s(self) -> float:
        return sum(record.wall_s for record in self.records.values())

    def write_plan(self, records: Iterable[Record]) -> None:
        """Writes a plan with the skipped cells and with these records. The report shows only what the plan names."""
        published = [WantedCell(record.cell, record.name, record.label) for record in records]
        self.session.write_plan([*self.skipped, *published])


def search_alone(session: Session, cells: Sequence[Cell], what: str, begin: Callable[[], BaseSearch]) -> int:
    """Plans `cells`, and runs the search that `begin` returns. Prints its answer, and returns the exit status.

    Raises UserError: the user sets the number of processes, but the search has to decide it.
    """
    if session.options.repeats > 1 or any(cell.repeat for cell in cells):
        raise UserError(f"repeat, repeats: {what} decides the number of processes. Leave both settings out")
    with session.alone(), ending_as_ctrl_c():
        session.prepare(cells)  # only these cells: the labels of earlier ones have numbers
        session.read_earlier(keeps=True)
        search = begin()
        try:
            search.run(f"{counted(len(search.asked), 'cell')} ({len(search.skipped)} skipped)")
        except KeyboardInterrupt as stop:
            if not search.records:
                raise Interrupted(" before the first process") from stop
            search.show()
            raise Interrupted("; every finished process has its record, in", shown(session.folder)) from stop
    return search.show()
