"""The output of a sweep: its progress, how its cells ended, and the fastest setting."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from accelbench.answers import headline
from accelbench.answers.cells import PROCESS_SETTINGS, MeasuredCell, Process, cells_of
from accelbench.answers.gaps import Gap
from accelbench.answers.headline import tips
from accelbench.answers.jobs import Job, jobs, setting_key
from accelbench.answers.time_to_goal import target_answers
from accelbench.answers.words import disturbed_text, setting_words, speed_text, token_times
from accelbench.grid.plan import Evidence, Planned, total
from accelbench.judging.row import served_text, warnings_of
from accelbench.judging.verdict import DISTURBED
from accelbench.judging.warnings import interval_text
from accelbench.presentation import duration, say, significant
from accelbench.project import shown
from accelbench.schema.cell import UNEXPECTED, Cell, Status
from accelbench.schema.plan_file import WantedCell
from accelbench.schema.record import Record, Row
from accelbench.sweep.card import BUSY_HINT, UNCOUNTED

if TYPE_CHECKING:
    from accelbench.sweep.run import SweepResult

DRAWN_HZ = 5  # ten times a second, the live line would take .9 % of a core
BAR = 30  # columns
MIN_WIDTH = 60  # columns of a terminal; a narrower one has no bar
FIGURES_WIDTH = 31  # columns for `  ok   168,000/s  ±6.2 %   1.8x !`
WIDE = 1000  # columns of a line in a file, which is never cut
MAX_WORKLOADS = 3  # for more workloads, it names the report and `accelbench best`
MAX_CELLS = 12


class SweepProgress:
    """Shows the progress of one sweep: a line for each cell, or if `is_brief`, a line for each failure.

    On a terminal, the last line is live: it shows the running cell, and how long it and the later cells will take.
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
    ) -> None:
        self.console = console
        self.evidence = evidence
        self.planned = [item for item in planned if item.skip_reason is None]
        self.num = len(self.planned)
        self.is_brief = is_brief
        self.num_done = 0
        self._last_reason: str | None = None  # of the latest failure
        self._started: list[Cell] = []
        width = console.width if console.is_terminal else WIDE
        self._lines = JobLines(self.planned, width, () if is_brief else earlier, plan)
        columns: list[ProgressColumn] = [SpinnerColumn(), TextColumn("{task.description}", markup=False)]
        if self.num > 1 and not is_brief and console.width >= MIN_WIDTH:
            columns += [BarColumn(BAR), MofNCompleteColumn()]
        self._live = Progress(
            *columns, TimeElapsedColumn(), console=console, refresh_per_second=DRAWN_HZ, transient=True
        )
        self._task = self._live.add_task("preparing", total=self.num)

    def __enter__(self) -> "SweepProgress":
        if self.console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.console.is_terminal:
            self._live.stop()

    def start(self, planned: Planned) -> None:
        """Shows the cell that is measured now, and how long it and the later cells will take."""
        if not self.console.is_terminal or planned.skip_reason is not None:
            return
        others = [] if self.is_brief else self.planned[self.num_done + 1 :]
        left = total([planned.cell, *(item.cell for item in others)], self.evidence, self._started)
        self.describe(f"{self._lines.name(planned.cell, planned.label)} ({left} left)")
        self._started.append(planned.cell)

    def describe(self, what: str) -> None:
        """Shows that `what` runs."""
        self._live.update(self._task, description=what, completed=self.num_done)

    def finish(self, record: Record) -> None:
        """Prints the cell's outcome. Skipped cells get no line: `conclude` counts them by reason."""
        self.evidence.add(record)
        if record.status == Status.skipped:
            return
        self.num_done += 1
        if self.is_brief:
            if record.status in UNEXPECTED:
                say(self.console, f"{record.label}: {record.status}: {record.reason}", "red")
            return
        reason = None
        if record.status in UNEXPECTED:
            reason = "for the same reason" if record.reason == self._last_reason else record.reason
            self._last_reason = record.reason
        count = "" if self.console.is_terminal else f"[{self.num_done:>{len(str(self.num))}}/{self.num}] "
        *above, line = self._lines.of(record, reason)
        for text in [*above, Text(count).append(line)]:
            say(self.console, text)


class JobLines:
    """The lines of a sweep's processes, `width` columns wide.

    The reference of a job is the setting of its first cell in `plan` that has run. `plan` has all cells of the folder.
    If `plan` is empty, `planned` is used instead. Each process has a line with its speed, and its gain: `speed / speed
    of the reference at the same batch`. If the reference has several processes, the gain uses the latest.
    """

    def __init__(
        self,
        planned: Sequence[Planned],
        width: int,
        earlier: Iterable[Record] = (),
        plan: Sequence[WantedCell] = (),
    ) -> None:
        self.width = width
        keys = dict.fromkeys(wanted.cell.key_without(PROCESS_SETTINGS) for wanted in plan or planned)
        # Key of a cell -> its place in the plan.
        self._places = {key: place for place, key in enumerate(keys)}
        # job -> its cells by their place in the plan and key, each with its latest process
        self._of_job: dict[object, dict[tuple[int, str], MeasuredCell]] = {}
        for record in earlier:
            self._gain(Process.of(record))
        # Words that all cells share are printed once above the lines. Each line has its precision and batch.
        words = [_words(item.cell, item.label) for item in planned]
        first = words[0][:4] + words[0][6:] if len(words) > 1 else []
        self._shared = [word for word in first if all(word in others for others in words)]
        self._is_first = True  # whether no line was printed yet
        longest = max((len(self.name(item.cell, item.label)) for item in planned), default=0)
        self._column = min(longest, width - FIGURES_WIDTH)  # where figures begin

    def name(self, cell: Cell, label: str) -> str:
        """Returns the words for a cell that not all cells share, such as `cnn train keras fp32 b128`."""
        return " ".join(word for word in _words(cell, label) if word not in self._shared)

    def of(self, record: Record, reason: str | None) -> Iterator[Text]:
        """Yields the line of a finished cell. `reason` is why it is not ok."""
        if self._is_first and self._shared:
            yield Text(f"  {' · '.join(self._shared)}", "dim")
        self._is_first = False
        process = Process.of(record)
        row = process.own_row
        name = self.name(record.cell, record.label)
        if len(name) > self._column:
            yield Text(f"  {name}")
            name = ""
        line = Text(f"  {name.ljust(self._column)}  ")
        if row["disturbed"]:
            yield line.append(disturbed_text(process), "dim")
            return
        line.append(record.status, "green" if record.status == Status.ok else "bold red")
        if record.status in UNEXPECTED:
            yield line.append(f"  {reason}" if reason else "")
            return
        if row["samples_per_s"] is None:
            line.append(
                f"  {served_text(row).removeprefix('target ')}{f' {headline.DOUBT}' if warnings_of(row) else ''}"
            )
        else:
            line.append(self._speed(process, row))
        for word in details(row):
            if len(line) + len(word) + 2 <= self.width:
                line.append(f"  {word}")
        line.rstrip()
        yield line

    def _speed(self, process: Process, row: Row) -> Text:
        """Returns the speed with its interval, the gain, and a mark if the speed or the gain is in doubt."""
        gain = self._gain(process)
        rate = speed_text(process.cell, row["samples_per_s"]).replace(" samples", "")
        ratio = "" if gain is None else f"{significant(gain.ratio, 2)}x"
        is_doubted = warnings_of(row) or (gain is not None and gain.is_doubtful)
        mark = headline.DOUBT if is_doubted else " "
        return Text.assemble(
            f"  {rate:>8}  {interval_text(row):<6}  ", (f"{ratio:>5}", "bold"), (f" {mark}", "yellow")
        )

    def _gain(self, process: Process) -> Gap | None:
        """Returns the gain over the reference's latest process. None for the reference, or if it has not run."""
        (cell,) = cells_of([process])
        if not cell.competes:
            return None
        cells = self._of_job.setdefault((cell.workload_key, cell.place_key), {})
        place = self._places.get(process.cell.key_without(PROCESS_SETTINGS), len(self._places))
        cells[place, cell.measured_key] = cell
        in_order = [cells[key] for key in sorted(cells)]
        # `jobs` would take long for each line.
        return Job(in_order, setting_key(in_order[0].cell)).gain_of(cell)


def details(row: Row) -> list[str]:
    """Returns an ok cell's numbers other than the speed, as short texts."""
    p50_ms, accuracy = row["latency_p50_ms"], row["accuracy"]
    step = "" if p50_ms is None else f"{significant(p50_ms)} ms"
    learned = "" if accuracy is None else f"test accuracy {significant(100 * accuracy)} %"
    return list(filter(None, [token_times(row) or step, learned]))


def _words(cell: Cell, label: str) -> list[str]:
    """Returns the words for a cell: model, mode, engine, device, precision, batch, then other settings."""
    return [cell.model.name, cell.mode.value, *setting_words(cell, label)]


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
    for bad in [
        record for record in records if record.status in UNEXPECTED and record.sweep_id != result.sweep_id
    ]:
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
        for text in warnings_of(training.settings[0].cell.row):
            say(console, f"Doubt about {training.settings[0].name}: {text}", "yellow")
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
        for line in headline.of_jobs(answered, console.width):
            say(console, line)
        return
    for job in answered:
        console.print()
        for line in headline.of_one(job, console.width, MAX_CELLS):
            say(console, line)
        if job.remark:
            say(console, job.remark)
        for text in warnings_of(job.fastest.row):
            say(console, f"Doubt about the fastest: {text}", "yellow")
