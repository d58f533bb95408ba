"""What a sweep of several cells ends with: which is the fastest, in a sentence for each model, and a small table."""

from collections.abc import Iterator, Sequence

from rich.console import Console, RenderableType
from rich.text import Text

from accelbench.judging.row import warnings_of
from accelbench.presentation import and_more
from accelbench.report.answers import Answer
from accelbench.report.read import ReportedCell, Sweep
from accelbench.report.tables import best
from accelbench.report.tables.first_screen import Recommendation, recommendations
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


def _columns(found: Recommendation) -> list[Column[ReportedCell]]:
    return [
        Column("with", lambda reported: word(found.text(reported.row))),
        *columns_of(
            lambda reported: reported.row, best.FIGURES, "samples/s", "± (%)", "tokens/s", "p50 (ms)", "warnings"
        ),
    ]


def show(records: Sequence[Record], folder: str, console: Console) -> None:
    """Prints the answer; nothing if no model has two ok cells.

    Args:
        records: of the whole sweep.
        folder: where they are, for the command that shows more.
        console: where to print.
    """
    cells = [ReportedCell(cell=record.cell, label=record.label, name=record.name, record=record) for record in records]
    several = compared(cells)
    if not several:
        return
    console.print()
    for line in _lines(several, cells):
        console.print(line, soft_wrap=isinstance(line, Text) and not console.is_terminal)
    for what, command in _commands(several, folder):
        console.print(f"{what} {command}", markup=False, highlight=False, soft_wrap=True)


def _commands(found: Sequence[Recommendation], folder: str) -> Iterator[tuple[str, str]]:
    """What to run next, each with the question that it answers."""
    for each in found[:MAX_WORKLOADS]:
        if (command := Answer(each).command) is not None:
            yield "To be sure:", command
    yield "All figures:", f"accelbench best {folder}"
    yield "A page to share:", f"accelbench report {folder}"


def compared(cells: Sequence[ReportedCell]) -> list[Recommendation]:
    """What to use for each model and mode of which at least two cells are ok."""
    sweep = Sweep(folder="", suite="", title="", study=None, profile=None, cells=list(cells))
    return [each for each in recommendations([sweep]) if len(each.typical) > 1]


def _lines(found: Sequence[Recommendation], cells: Sequence[ReportedCell]) -> Iterator[RenderableType]:
    for each in found[:MAX_WORKLOADS]:
        yield sentence(Answer(each))
        if len(each.by_speed) <= MAX_CELLS and (table := tabulate_known("", _columns(each), each.by_speed)):
            yield rendered(table)
            if any(reported.number("latency_p50_ms") is None for reported in each.by_speed):
                yield Text(NO_MEDIAN, "dim")
        yield from remarks(Answer(each), cells)
    if len(found) > MAX_WORKLOADS:
        yield Text(f"and {len(found) - MAX_WORKLOADS} other models or modes")


def remarks(answer: Answer, cells: Sequence[ReportedCell]) -> Iterator[Text]:
    """What to know before using the fastest cell, and a line for each of its first warnings.

    Args:
        answer: which cell that is.
        cells: all that were planned.
    """
    if words := " ".join(filter(None, [answer.remark, answer.larger_batch(cells)])):
        yield Text(words)
    known = warnings_of(answer.fastest.row)
    for text in known[:MAX_WARNINGS]:
        yield Text(f"Warning of the fastest: {text}", "yellow")
    if len(known) > MAX_WARNINGS:
        yield Text(f"{and_more(len(known) - MAX_WARNINGS, 'warning')}, in its record", "yellow")


def sentence(answer: Answer) -> Text:
    """Such as `resnet18, inference, random 3x224x224: bf16, batch 16 is fastest here, 51 images/s; ...`."""
    return Text.assemble((f"{answer.what}", "bold"), f", {answer.data}: {answer.sentence}")
