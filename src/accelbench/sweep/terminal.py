"""The output of a sweep: its progress, how its cells ended, and the fastest setting."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
)
from rich.table import Column
from rich.text import Text

from accelbench.answers import gains
from accelbench.answers.cells import Process, cells_of
from accelbench.answers.headline import tips
from accelbench.answers.jobs import Job, jobs
from accelbench.answers.time_to_goal import target_answers
from accelbench.grid.estimate import Evidence, Length, lengths
from accelbench.grid.plan import Planned
from accelbench.judging.row import warnings_of
from accelbench.judging.verdict import DISTURBED
from accelbench.presentation import duration, say
from accelbench.project import shown
from accelbench.schema.cell import Cell
from accelbench.schema.plan_file import WantedCell
from accelbench.schema.record import Record
from accelbench.schema.vocab import UNEXPECTED, Status
from accelbench.sweep.card import BUSY_HINT, UNCOUNTED
from accelbench.sweep.job_lines import JobLines

if TYPE_CHECKING:
    from accelbench.sweep.run import SweepResult

DRAWN_HZ = 5  # ten times a second, the live line would take .9 % of a core
BAR = 30  # columns
MIN_WIDTH = 60  # columns of a terminal; a narrower one has no bar
WIDE = 1000  # columns of a line in a file, which is never cut
MAX_WORKLOADS = 3  # for more workloads, it names the report and `accelbench best`
MAX_CELLS = 12


class SweepProgress:
    """Shows the progress of one sweep: a line for each cell, or if `is_brief`, a line for each failure.

    The lines are grouped by job. On a terminal, the last line is live: it shows the running cell and the time left.
    """

    def __init__(
        self,
        console: Console,
        planned: Sequence[Planned],
        evidence: Evidence,
        *,
        plan: Sequence[WantedCell] = (),  # see `JobLines`
        earlier: Iterable[Record] = (),  # records of the plan's cells; the cells are compared with these
        is_brief: bool = False,
        says_mistakes: bool = True,  # if False, the caller prints the user's mistakes
    ) -> None:
        self.console = console
        self.evidence = evidence
        self.planned = [item for item in planned if item.skip_reason is None]
        self.num = len(self.planned)
        self._ids = {item.cell.id for item in self.planned}
        self.is_brief = is_brief
        self.says_mistakes = says_mistakes
        self.num_done = 0
        self._told: str | None = None  # the reason of the latest failure
        self._started: list[Cell] = []
        self._jobs = JobLines(
            self.planned, console.width if console.is_terminal else WIDE, () if is_brief else earlier, plan
        )
        columns: list[ProgressColumn] = [SpinnerColumn(), TextColumn("{task.description}", markup=False)]
        if self.num > 1 and not is_brief and console.width >= MIN_WIDTH:
            columns += [BarColumn(BAR), MofNCompleteColumn()]
        self._live = Progress(
            *columns, _TimeLeft(self._left), console=console, refresh_per_second=DRAWN_HZ, transient=True
        )
        self._task = self._live.add_task("", total=self.num)
        self.begin("preparing")

    def __enter__(self) -> "SweepProgress":
        if self.console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.console.is_terminal:
            self._live.stop()

    def begin(self, what: str, expected: Length | None = None, later: Length | None = None) -> None:
        """Shows that `what` runs, how long it is `expected` to take, and how long everything `later` will take."""
        self.describe(what)
        self._expected = expected
        self._later = later or Length()
        self._began_s = time.monotonic()

    def start(self, planned: Planned) -> None:
        """Shows the cell that is measured now, and how long it and the later cells will take."""
        if not self.console.is_terminal or planned.skip_reason is not None:
            return
        others = [] if self.is_brief else self.planned[self.num_done + 1 :]
        cells = [planned.cell, *(item.cell for item in others)]
        expected, *later = lengths(cells, self.evidence, self._started)
        self.begin(self._jobs.name(planned), expected, sum(later, Length()))
        self._started.append(planned.cell)

    def describe(self, what: str) -> None:
        """Shows that `what` runs."""
        self._live.update(self._task, description=what, completed=self.num_done)

    def _left(self) -> str:
        """Returns the time left for all cells. If it is unknown, returns how long this cell has run."""
        took_s = time.monotonic() - self._began_s
        took = duration(took_s)
        expected = self._expected
        if expected is None:
            return took
        is_least = took_s > max(1.0, expected.seconds) or expected.num_unknown or self._later.num_unknown
        if is_least and not self._later.seconds:
            return f"{took}, {'no estimate' if expected.num_unknown else f'{expected} expected'}"
        left_s = max(1.0, expected.seconds - took_s) + self._later.seconds
        return f"{'more than ' if is_least else ''}{duration(left_s)} left"

    def finish(self, record: Record) -> None:
        """Prints the cell's outcome. Skipped cells get no line: `conclude` counts them by reason."""
        self.evidence.add(record)
        self.num_done += record.cell.id in self._ids
        if self.is_brief and record.status in UNEXPECTED:
            say(self.console, f"{record.label}: {record.status}: {record.reason}", "red")
        if self.is_brief or record.status == Status.skipped:
            return
        reason = None
        if record.status in UNEXPECTED and (self.says_mistakes or not record.user_error):
            reason = record.reason or "no reason was given"
            if reason == self._told:
                reason = "for the same reason"
            else:
                self._told = reason
        count = "" if self.console.is_terminal else f"[{self.num_done:>{len(str(self.num))}}/{self.num}] "
        *above, line = self._jobs.of(record, reason)
        for text in [*above, Text(count).append(line)]:
            say(self.console, text)


class _TimeLeft(ProgressColumn):
    """A column whose text is computed each time."""

    def __init__(self, text: Callable[[], str]) -> None:
        super().__init__(Column(no_wrap=True))
        self._text = text

    def render(self, task: Task) -> Text:
        return Text(self._text())


def conclude(result: "SweepResult", console: Console) -> None:
    """Prints how the cells ended, why some were skipped, and the folder of the records.

    The reasons of failures are not repeated, since the progress has printed them.
    """
    records = result.records
    folder = shown(result.folder)
    processes = [Process.of(record) for record in records]
    counts = Counter(process.outcome for process in processes)
    say(console, ", ".join(f"{num} {outcome}" for outcome, num in counts.most_common()))
    if why := [process.disturbed for process in processes if process.disturbed]:
        again = f"the same command with out={folder} retry=failed; {BUSY_HINT}"
        say(console, f"  {DISTURBED}: {why[0]}; {UNCOUNTED}.", "yellow")
        say(console, f"  To measure again: {again}", "yellow")
    say_skipped([record.reason for record in records if record.status == Status.skipped], console)
    for bad in [record for record in records if record.status in UNEXPECTED and record.sweep_id != result.sweep_id]:
        say(console, f"  {bad.label}: {bad.status}: {bad.reason}", "red")
    took_s = sum(record.wall_s for record in records)
    say(console, f"Records: {folder} ({duration(took_s)} of measuring)")


def say_skipped(reasons: Sequence[str | None], console: Console) -> None:
    """Prints why cells were skipped. `reasons` has a reason for each skipped cell."""
    for reason, num in Counter(reasons).most_common():
        say(console, f"  skipped {num}: {reason}", "dim")


def show_answer(planned: Sequence[Process], folder: str, console: Console) -> None:
    """Prints advice for each model and mode, and commands for details. Prints nothing if no cell is ok."""
    cells = cells_of(planned)
    of_works = jobs(cells)
    trained = target_answers(cells)
    if not of_works and not trained:
        return
    for training in trained[:MAX_WORKLOADS]:
        say(console, f"\n{training.sentence}")
    show_answers(of_works, console)
    for tip in tips(cells):
        say(console, tip, "dim")
    console.print()
    if any(job.lead and not job.lead.is_interleaved for job in of_works):
        say(console, f"Sure  accelbench compare --top {folder}")
    say(console, f"Page  accelbench report {folder}")


def show_answers(answered: Sequence[Job], console: Console) -> None:
    """Prints the answers. If there are many jobs, prints each job's gain. Otherwise, prints each job's best cells."""
    if len(answered) > MAX_WORKLOADS:
        console.print()
        for line in gains.of_jobs(answered, console.width):
            say(console, line)
        return
    for job in answered:
        console.print()
        for line in gains.of_one(job, console.width, MAX_CELLS):
            say(console, line)
        for line in remarks(job):
            say(console, line)


def remarks(job: Job) -> Iterator[Text]:
    """Yields a remark on the fastest cell, and its doubts."""
    if job.remark:
        yield Text(job.remark)
    for text in warnings_of(job.fastest.row):
        yield Text(f"Doubt about the fastest: {text}", "yellow")
