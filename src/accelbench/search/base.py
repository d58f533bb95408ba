"""What both searches do alike: each has the machine alone, runs processes with a record each, and keeps what it has."""

import os
from collections.abc import Callable, Iterable, Sequence, Sized

from accelbench.errors import Interrupted, UserError
from accelbench.grid.plan import Planned, Prepared
from accelbench.judging.verdict import why_disturbed
from accelbench.presentation import duration
from accelbench.project import PLAN, shown
from accelbench.schema import plan_file
from accelbench.schema.cell import Cell
from accelbench.schema.plan_file import WantedCell
from accelbench.schema.record import Record
from accelbench.schema.serialize import is_missing
from accelbench.sweep import run
from accelbench.sweep.context import SweepContext
from accelbench.sweep.session import Session
from accelbench.sweep.terminal import say_skipped


class BaseSearch:
    """A search among the cells that `ready` has, for `budget_s` from now on; `now` is its clock, in seconds."""

    what: str  # is searched, such as `3 settings`
    records: Sized  # of its processes
    session: Session  # once it runs
    is_interrupted = False  # by Ctrl-C: then that is the exit status

    def __init__(self, context: SweepContext, ready: Prepared, budget_s: float, now: Callable[[], float]) -> None:
        self.context, self.ready, self.budget_s, self.now = context, ready, budget_s, now
        self.ends_s = now() + budget_s
        self.asked = [item for item in ready.planned if item.skip_reason is None]
        self.skipped = [item for item in ready.planned if item.skip_reason is not None]

    def race(self) -> None:
        """Runs processes until the best is known, or the time is up."""
        raise NotImplementedError

    def show(self) -> int:
        """Prints what was found; the exit status: 1 without an answer."""
        raise NotImplementedError

    def run(self) -> None:
        self.write_plan([])
        self.context.say(f"Searching {self.what} for {duration(self.budget_s)} ...")
        say_skipped([item.skip_reason for item in self.skipped if item.skip_reason], self.context.console)
        with Session(self.context, self.ready, self.ready.planned, is_brief=True) as self.session:
            for item in self.skipped:
                self.session.measure(item)
            self.race()

    def known(self, items: Sequence[Planned]) -> dict[str, Record]:
        """The records that earlier searches in this folder have of such processes, by name."""
        done, _ = run.known(self.context, items)
        limits_s = {item.record_name: item.cell.timeout_s for item in items}
        # One that was disturbed, or cut off by the end of a budget, says nothing.
        sound = [each for each in done if not why_disturbed(each) and not each.was_cut(limits_s[each.name])]
        return {each.name: each for each in sound}

    def is_there(self, item: Planned) -> bool:
        """Whether the process has a file: the record of an earlier search takes no time."""
        return os.path.lexists(self.context.folder / f"{item.record_name}.json")

    def write_plan(self, records: Iterable[Record]) -> None:
        """Names the skipped cells and these records as those to publish."""
        published = [WantedCell(each.cell, each.name, each.label) for each in records]
        self.context.write_plan([*self.skipped, *published])


def search_alone(
    context: SweepContext, cells: Sequence[Cell], decides: str, begin: Callable[[Prepared], BaseSearch]
) -> int:
    """Plans `cells`, runs the search that `begin` makes of them, prints its answer, and returns the exit status.

    Raises a UserError if the user says how many processes there are, which the search `decides`.
    """
    if context.options.repeats > 1 or any(cell.repeat for cell in cells):
        raise UserError(f"repeat, repeats: {decides}: leave it out")
    with context.alone():
        context.set_aside_plan()
        ready = context.prepare(cells)  # without the earlier cells, which have numbers in their labels
        context.earlier = [] if is_missing(context.folder / PLAN) else plan_file.read_plan(context.folder).cells
        search = begin(ready)
        try:
            search.run()
        except KeyboardInterrupt as stop:
            if not search.records:
                raise Interrupted(" before the first process") from stop
            search.is_interrupted = True
            search.show()
            raise Interrupted("; every finished process has its record, in", shown(context.folder)) from stop
    return search.show()
