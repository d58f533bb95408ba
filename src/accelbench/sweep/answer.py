"""What a sweep of several cells ends with: which is the fastest, in a sentence for each model, and a small table."""

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console, RenderableType
from rich.text import Text

from accelbench.answers.cells import MeasuredCell, cells_of
from accelbench.answers.process import Process
from accelbench.answers.ranking import Answer, answers
from accelbench.judging.row import warnings_of
from accelbench.presentation import and_more
from accelbench.report.tables import best
from accelbench.report.tables.on_terminal import rendered
from accelbench.report.tables.table import Column, columns_of, tabulate_known, word
from accelbench.schema.record import Record
from accelbench.stats.order_statistics import NUM_SAMPLES_FOR

MAX_WORKLOADS = 3  # for more, the report and `accelbench best` are the places to look
MAX_CELLS = 12
MAX_WARNINGS = 2
NO_MEDIAN = (
    f"p50 (ms): fewer than {NUM_SAMPLES_FOR[50]} steps were waited for one by one: steps are long, or whole epochs "
    "were measured."
)
FIGURES = ("samples/s", "± (%)", "tokens/s", "p50 (ms)", "warnings")


def show(records: Sequence[Record], folder: str, console: Console) -> None:
    """Prints the answer; nothing if no model has two ok cells.

    Args:
        records: of the whole sweep.
        folder: where they are, for the command that shows more.
        console: where to print.
    """
    processes = [Process.of(record) for record in records]
    several = compared(processes)
    if not several:
        return
    console.print()
    for line in _lines(several, processes):
        console.print(line, soft_wrap=isinstance(line, Text) and not console.is_terminal)
    commands = [("To be sure:", each.command) for each in several[:MAX_WORKLOADS] if each.command]
    commands += [("All figures:", f"accelbench best {folder}"), ("A page to share:", f"accelbench report {folder}")]
    for what, command in commands:
        console.print(f"{what} {command}", markup=False, highlight=False, soft_wrap=True)


def compared(processes: Iterable[Process]) -> list[Answer]:
    """What to use for each model and mode of which at least two cells are ok."""
    return [each for each in answers(cells_of(processes)) if each.others]


def _lines(found: Sequence[Answer], planned: Sequence[Process]) -> Iterator[RenderableType]:
    for each in found[:MAX_WORKLOADS]:
        yield sentence(each)
        if len(each.group.cells) <= MAX_CELLS and (table := tabulate_known("", _columns(each), each.group.cells)):
            yield rendered(table)
            if any(cell.number("latency_p50_ms") is None for cell in each.group.cells):
                yield Text(NO_MEDIAN, "dim")
        yield from remarks(each, planned)
    if len(found) > MAX_WORKLOADS:
        yield Text(f"and {len(found) - MAX_WORKLOADS} other models or modes")


def _columns(answer: Answer) -> list[Column[MeasuredCell]]:
    with_what: Column[MeasuredCell] = Column("with", lambda cell: word(answer.group.short_text(cell)))
    return [with_what, *columns_of(lambda cell: cell, best.FIGURES, *FIGURES)]


def remarks(answer: Answer, planned: Iterable[Process]) -> Iterator[Text]:
    """What to know before using the fastest cell, and a line for each of its first warnings.

    Args:
        answer: which cell that is.
        planned: everything that was planned.
    """
    if words := " ".join(filter(None, [answer.remark, answer.larger_batch(planned)])):
        yield Text(words)
    known = warnings_of(answer.fastest.row)
    for text in known[:MAX_WARNINGS]:
        yield Text(f"Warning of the fastest: {text}", "yellow")
    if len(known) > MAX_WARNINGS:
        yield Text(f"{and_more(len(known) - MAX_WARNINGS, 'warning')}, in its record", "yellow")


def sentence(answer: Answer) -> Text:
    """Such as `resnet18, inference, random 3x224x224: bf16, batch 16 is fastest here, 51 images/s; ...`."""
    return Text.assemble((f"{answer.what}", "bold"), f", {answer.data}: {answer.sentence}")
