"""The common part of race.py and serving.py. A search runs alone on the machine. Each process leaves a record."""

import time
from collections.abc import Iterable, Sequence

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
    """A search among cells.

    Raises UserError: the user sets the number of processes, but the search has to decide it.
    """

    now = staticmethod(time.monotonic)  # the clock for the budget, in seconds

    def __init__(self, session: Session, cells: Sequence[Cell], flag: str, budget_s: float) -> None:
        if session.options.repeats > 1 or any(cell.repeat for cell in cells):
            raise UserError(
                f"repeat, repeats: {flag} decides the number of processes. Leave both settings out"
            )
        self.session = session
        self.cells = cells
        self.budget_s = budget_s
        self.records: dict[str, Record] = {}  # name -> record, in the order of the processes

    def search(self) -> int:
        """Plans the cells, and searches. Prints the answer, and returns the exit status."""
        session = self.session
        with session.alone(), ending_as_ctrl_c():
            # Only these cells are planned: the labels of earlier ones have numbers.
            self.ready = ready = session.prepare(self.cells)
            session.read_earlier(keeps=True)
            self.ends_s = self.now() + self.budget_s
            self.asked = [item for item in ready.planned if item.skip_reason is None]
            self.skipped = [item for item in ready.planned if item.skip_reason is not None]
            try:
                self._run()
            except KeyboardInterrupt as stop:
                if not self.records:
                    raise Interrupted(" before the first process") from stop
                self.show()
                raise Interrupted(
                    "; every finished process has its record, in", shown(session.folder)
                ) from stop
        return self.show()

    def race(self) -> None:
        """Runs processes until the best cell is known, or the time is up."""
        raise NotImplementedError

    def show(self) -> int:
        """Prints the answer. Returns the exit status, which is 1 if there is no answer."""
        raise NotImplementedError

    def _run(self) -> None:
        self.write_plan([])
        what = f"{counted(len(self.asked), 'cell')} ({len(self.skipped)} skipped)"
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
