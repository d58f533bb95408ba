"""The output of a sweep: its progress, how its cells ended, and the fastest setting."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console
from rich.live import Live
from rich.text import Text

from accelbench.answers import gains
from accelbench.answers.cells import cells_of
from accelbench.answers.headline import tips
from accelbench.answers.process import Process
from accelbench.answers.sentences import Answer, answers
from accelbench.answers.time_to_goal import target_answers
from accelbench.answers.words import disturbed_text, speed_unit
from accelbench.grid.estimate import Evidence, Length, lengths
from accelbench.grid.plan import Planned
from accelbench.judging.row import summarise, warnings_of
from accelbench.judging.served import served_text
from accelbench.judging.verdict import DISTURBED, why_disturbed
from accelbench.judging.warnings import relative_half_width
from accelbench.presentation import and_more, counted, duration, say, shortened
from accelbench.project import shown
from accelbench.schema.cell import Cell
from accelbench.schema.plan_file import WantedCell
from accelbench.schema.record import Record
from accelbench.schema.vocab import UNEXPECTED, Status
from accelbench.sweep.card import BUSY_HINT, MAX_DOUBTS, UNCOUNTED
from accelbench.sweep.context import SweepResult
from accelbench.sweep.job_lines import JobLines, details

# The live line takes .3 % of a core; rich's `Progress`, drawn ten times a second, takes .9 %.
DRAWN_HZ = 5
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
ECHO_WIDTH = 3  # columns for a terminal's ^C, which else wraps, so that the live line stays
LEAST_NAME = 12  # columns of a cell's name on a narrow terminal
LEAST_BAR, MOST_BAR = 6, 30  # columns
MAX_WORKLOADS = 3  # for more workloads, it names the report and `accelbench best`
MAX_CELLS = 12


class SweepProgress:
    """Shows the progress of one sweep: a line for each cell, or if `is_brief`, a line for each failure.

    On a terminal, the lines are grouped by job. The last line is live: it shows the running cell and the time left.
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
        known = earlier if console.is_terminal and not is_brief else ()
        self._jobs = JobLines(self.planned, console.width, known, plan)
        self.begin("preparing")
        self._live = Live(console=console, get_renderable=self._line, refresh_per_second=DRAWN_HZ, transient=True)

    def __enter__(self) -> "SweepProgress":
        if self.console.is_terminal:
            self._live.start(refresh=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def begin(self, what: str, expected: Length | None = None, later: Length | None = None) -> None:
        """Shows that `what` runs, how long it is `expected` to take, and how long everything `later` will take."""
        self.what = what
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

    def _line(self) -> Text:
        """The live line, as it is now."""
        took_s = time.monotonic() - self._began_s
        spin = f"{SPINNER[int(DRAWN_HZ * took_s) % len(SPINNER)]} "
        left = self._left(took_s)
        is_one = self.is_brief or self._expected is None or self.num < 2
        if not is_one:
            left = f"{min(self.num_done + 1, self.num)}/{self.num}  {left}"
        room = self.console.width - ECHO_WIDTH - len(f"{spin}  {left}")
        what = shortened(self.what, max(LEAST_NAME, room))
        line = Text.assemble((spin, "cyan"), f"{what}  ")
        length = min(MOST_BAR, room - len(what) - 2)
        if length >= LEAST_BAR and not is_one:
            done = round(length * self.num_done / self.num)
            line.append("━" * done, "green").append(f"{'─' * (length - done)}  ", "dim")
        line.append(left)
        line.truncate(self.console.width - ECHO_WIDTH, overflow="ellipsis")
        return line

    def _left(self, took_s: float) -> str:
        """Returns the time left for all cells. If it is unknown, returns how long this cell has run."""
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
        if self.console.is_terminal:
            for line in self._jobs.of(record, reason):
                say(self.console, line)
            return
        count = f"[{self.num_done:>{len(str(self.num))}}/{self.num}] "
        width = max((len(item.label) for item in self.planned), default=0)
        words = outcome(record)
        if record.status in UNEXPECTED:
            words = [reason] if reason else []
        # The words of a disturbed cell already begin with its speed.
        word = "" if why_disturbed(record) else record.status.value
        say(self.console, "  ".join([f"{count}{record.label:<{width}} {word}", *words]))


def outcome(record: Record) -> list[str]:
    """Describes a cell's result in a few words and numbers, the speed first."""
    if record.status in UNEXPECTED or record.status == Status.skipped:
        return [record.reason or "no reason was given"]
    if why_disturbed(record):
        return [disturbed_text(Process.of(record))]
    row = summarise(record)
    words = []
    if isinstance(rate := row["samples_per_s"], float):
        (size, unit) = speed_unit(record.cell)
        width = relative_half_width(row)
        rate *= size
        bounds = "" if width is None else f" ±{100 * width:.1f} %"
        words.append(f"{rate:>11,.{0 if rate >= 100 else 2}f} {unit}{bounds}")
    words += filter(None, served_text(row).split(", "))
    words += details(record, row, is_exact=True)
    if num := len(warnings_of(row)):
        words.append(counted(num, "doubt"))
    return words


def conclude(result: SweepResult, console: Console) -> None:
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
        say(console, f"  {bad.label}: {bad.status}: {outcome(bad)[0]}", "red")
    took_s = sum(record.wall_s for record in records)
    say(console, f"Records: {folder} ({duration(took_s)} of measuring)")


def say_skipped(reasons: Sequence[str | None], console: Console) -> None:
    """Prints why cells were skipped. `reasons` has a reason for each skipped cell."""
    for reason, num in Counter(reasons).most_common():
        say(console, f"  skipped {num}: {reason}", "dim")


def show_answer(planned: Sequence[Process], folder: str, console: Console) -> None:
    """Prints advice for each model and mode, and commands for details. Prints nothing if no cell is ok."""
    cells = cells_of(planned)
    of_works = answers(cells)
    trained = target_answers(cells)
    if not of_works and not trained:
        return
    for training in trained[:MAX_WORKLOADS]:
        say(console, f"\n{training.sentence}")
    show_answers(of_works, console)
    for tip in tips(cells):
        say(console, tip, "dim")
    console.print()
    if any(answer.lead and not answer.lead.is_interleaved for answer in of_works):
        say(console, f"Sure  accelbench compare --top {folder}")
    say(console, f"Page  accelbench report {folder}")


def show_answers(answered: Sequence[Answer], console: Console) -> None:
    """Prints the answers. If there are many jobs, prints each job's gain. Otherwise, prints each job's best cells."""
    if len(answered) > MAX_WORKLOADS:
        console.print()
        for line in gains.of_jobs(answered, console.width):
            say(console, line)
        return
    for answer in answered:
        console.print()
        for line in gains.of_one(answer, console.width, MAX_CELLS):
            say(console, line)
        for line in remarks(answer):
            say(console, line)


def remarks(answer: Answer) -> Iterator[Text]:
    """Yields remarks on the fastest cell and its doubts, and the number of slower cells in doubt."""
    if answer.remark:
        yield Text(answer.remark)
    doubts = warnings_of(answer.fastest.row)
    for text in doubts[:MAX_DOUBTS]:
        yield Text(f"Doubt about the fastest: {text}", "yellow")
    if (num := len(doubts) - MAX_DOUBTS) > 0:
        yield Text(f"{and_more(num, 'doubt')}, in its record", "yellow")
    if num := sum(bool(warnings_of(cell.row)) for cell in answer.group.cells[1:]):
        yield Text(f"{counted(num, 'slower cell')} in doubt: see the report", "dim yellow")
