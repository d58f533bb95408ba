"""What a sweep shows while it runs: a bar on a terminal, a line per cell elsewhere."""

from collections.abc import Callable, Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

from accelbench.grid.estimate import Length, total
from accelbench.grid.evidence import Evidence
from accelbench.grid.plan import Planned
from accelbench.judging import disturbed
from accelbench.judging.disturbed import DISTURBED
from accelbench.judging.row import summarise, warnings_of
from accelbench.judging.warnings import counted_samples, relative_half_width
from accelbench.schema.record import Record, Row
from accelbench.schema.vocab import UNEXPECTED, Status

WIDE = 80  # columns of a terminal that has room for a bar
STYLES = {Status.ok: "green", Status.skipped: "dim", DISTURBED: "yellow"}


class SweepProgress:
    """Progress of one sweep over the `planned` cells; each finished cell adds to the evidence of how long they take."""

    def __init__(self, console: Console, planned: Sequence[Planned], evidence: Evidence) -> None:
        self.console = console
        self.planned, self.num, self.evidence = planned, len(planned), evidence
        self.num_done = 0
        self.bar = Progress(
            *([BarColumn(bar_width=24)] if console.width >= WIDE else []),  # else it would push out the cell's name
            MofNCompleteColumn(),
            TextColumn("{task.description}", markup=False),
            TextColumn("[dim]{task.fields[left]}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self.task = self.bar.add_task("", total=self.num, left="")

    def __enter__(self) -> "SweepProgress":
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def start(self, planned: Planned) -> None:
        """Shows the cell that is measured now, and the time left."""
        left = f"{self._left()} left" if self.console.is_terminal else ""
        self.bar.update(self.task, description=planned.label, left=left)

    def _left(self) -> Length:
        # The cell that starts now, and all later ones.
        started, to_come = (
            [item.cell for item in items if item.skip_reason is None]
            for items in (self.planned[: self.num_done], self.planned[self.num_done :])
        )
        return total(to_come, self.evidence, started)

    def finish(self, record: Record) -> None:
        """Prints the cell's outcome. Skipped cells get no line: `sweep.run.conclude` counts them by reason."""
        self.num_done += 1
        self.evidence.add(record)
        self.bar.update(self.task, completed=self.num_done)
        if record.status == Status.skipped:
            return
        count = f"[{self.num_done:>{len(str(self.num))}}/{self.num}] "
        line = Text.assemble((count, "dim"), f"{record.label:<38} ")
        word = DISTURBED if disturbed.reason(record) else record.status.value
        line.append(word, STYLES.get(word, "bold red"))
        if self.num > 1 or record.status not in UNEXPECTED:  # the card or the end of the sweep says why
            text = f"  {outcome(record)}"
            if self.console.is_terminal and line.cell_len + len(text) > self.console.width:
                line.append(f"\n{' ' * (len(count) - 2)}")  # the terminal would break a word
            line.append(text)
        self.console.print(line, soft_wrap=True)


class BudgetProgress(SweepProgress):
    """Shows the budget instead of the number of cells, and a line for each process that failed."""

    def __init__(
        self,
        console: Console,
        planned: Sequence[Planned],
        evidence: Evidence,
        *,
        left_s: Callable[[], float],
        budget_s: float,
    ) -> None:
        super().__init__(console, planned, evidence)
        self._left_s_of_budget, self._budget_s = left_s, budget_s
        self.bar.update(self.task, total=round(budget_s))

    def start(self, planned: Planned) -> None:
        spent_s = round(min(self._budget_s, self._budget_s - self._left_s_of_budget()))
        self.bar.update(self.task, description=f"s  {planned.label}", completed=spent_s)

    def finish(self, record: Record) -> None:
        self.evidence.add(record)
        is_cut = record.status == Status.timeout and self._left_s_of_budget() <= 0
        if record.status in UNEXPECTED and not is_cut:
            self.console.print(
                f"{record.label}: {record.status}: {record.reason}", style="red", markup=False, soft_wrap=True
            )


def outcome(record: Record) -> str:
    """One cell's result in a few words."""
    if record.status in UNEXPECTED or record.status == Status.skipped:
        return record.reason or "no reason was given"
    row = summarise(record)
    if row["disturbed"]:
        return str(row["disturbed"])
    words = []
    if isinstance(row["samples_per_s"], float):
        rate = row["samples_per_s"]
        words.append(f"{rate:>11,.{0 if rate >= 100 else 2}f} samples/s{_bounds(row)}")
    if isinstance(row["latency_p50_ms"], float):
        words.append(f"{row['latency_p50_ms']:>9.3f} ms/step")
    if isinstance(row["accuracy"], float):
        words.append(f"accuracy {row['accuracy']:.4f}")
    counted = counted_samples(record)
    words += counted
    if num := len(warnings_of(row)) - len(counted):
        words.append(f"{num} warning{'s' * (num > 1)}")
    return "  ".join(words)


def _bounds(row: Row) -> str:
    width = relative_half_width(row)
    return "" if width is None else f" ±{100 * width:.1f} %"
