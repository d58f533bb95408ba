"""The card of one cell: its speed with an interval, the phases of a step, other numbers, checks and remarks."""

import re
from collections.abc import Iterable, Iterator
from itertools import cycle

from rich.console import Console
from rich.text import Text

from accelbench.answers.cells import Process
from accelbench.answers.words import disturbed_text, setting_words, speed_text, speed_unit
from accelbench.judging.row import phases_ms, remarks_in, served_text, summarise, tails, warnings_of
from accelbench.judging.verdict import ALLOWED, BUSY_VARIABLE
from accelbench.judging.warnings import Kind, output_error_text
from accelbench.presentation import (
    and_more,
    counted,
    duration,
    say,
    significant,
    unit_of_work,
)
from accelbench.schema.cell import QUANTIZED, UNEXPECTED, Mode, Provenance, Status
from accelbench.schema.measurement import Serving
from accelbench.schema.record import Record, Row

UNCOUNTED = "answers leave such a cell out"
BUSY_HINT = f"if a machine is never quiet, set {BUSY_VARIABLE}={ALLOWED} to use disturbed cells"
MAX_DOUBTS = 2
MAX_WIDTH = 113  # columns; longer bars show nothing more
LEAST_BAR, MOST_BAR = 9, 34
NOISY = "noisy: "  # a note with this beginning repeats what the interval shows
INDENT, GAP = "  ", "   "
STYLES = {"✓ ": "", "! ": "yellow"}
# Name of a figure, its column, the factor to its unit, and the unit.
FIGURES = (
    ("memory", "peak_host_mb", 1, " MB"),
    ("device memory", "peak_device_mb", 1, " MB"),
    ("tokens", "tokens_per_s", 1, "/s"),
    ("decoding", "decode_tokens_per_s", 1, " tokens/s"),
    ("key-value cache", "kv_cache_mb", 1, " MB"),
    ("test accuracy", "accuracy", 100, " %"),
    ("training accuracy", "train_accuracy", 100, " %"),
)
FILLS = (("▓", "cyan"), ("▒", "magenta"), ("█", "blue"), ("░", "yellow"))  # for the phases of a step, in turn


def show_card(
    record: Record, path: str, console: Console, *, says_why: bool = True, is_verbose: bool = False
) -> None:
    """Prints the card of a record, whatever its status. The record's file is at `path`.

    Unknown numbers are left out. If `says_why`, the card has the reason of a failure; otherwise the reason is already
    on the screen. If `is_verbose`, the card has all remarks.
    """
    row = summarise(record)
    width = min(console.width - len(INDENT) - 1, MAX_WIDTH)
    parts: list[Iterable[Text]] = [_packed(_header(record, row), width, " · ", "bold")]
    texts = [*_remarks(record, row, is_verbose), path]
    if row["disturbed"]:
        texts = [disturbed_text(Process.of(record)), UNCOUNTED, f"→ {BUSY_HINT}", *texts]
    elif record.status == Status.ok:
        style = "bold" if re.search("not reached|fail|can't tell", served_text(row)) else "bold green"
        parts += [_packed(_speed(record, row, width), width, style=style), _step(row, width)]
        parts.append(_packed(_use(record, row, width), width))
    else:
        parts.append([_failed(record, row, says_why)])
    parts.append(Text(text, STYLES.get(text[:2], "dim")) for text in texts)
    for lines in map(list, parts):
        if lines:
            console.print()
        for line in lines:
            say(console, Text(INDENT).append(line))
    console.print()


def _header(record: Record, row: Row) -> Iterator[str]:
    """The first line: model, mode, settings and device."""
    cell = record.cell
    engine, device, precision, batch, *others = setting_words(cell, record.label)
    yield f"{cell.model.name} {cell.mode}  {precision} {batch}"
    yield from (engine, device, row["data"] if record.data else "", " ".join(others), row["device_name"])


def _failed(record: Record, row: Row, says_why: bool) -> Text:
    """Returns how the cell ended. Adds the reason if the cell was skipped, or if `says_why`."""
    line = Text(record.status, "dim" if record.status == Status.skipped else "bold red")
    if record.reason and (says_why or record.status not in UNEXPECTED):
        line.append(f": {row['reason']}", "not bold default")
    return line


def _speed(record: Record, row: Row, width: int) -> Iterator[str]:
    """Yields the speed with its interval, and the time of a step, a token or a request."""
    yield served_text(row)
    if row["samples_per_s"] is not None:
        yield speed_text(record.cell, row["samples_per_s"])
    low, high = row["samples_per_s_low"], row["samples_per_s_high"]
    if low is not None and high is not None:
        size, _ = speed_unit(record.cell)
        length = MOST_BAR // 2 if width > 80 else LEAST_BAR
        share = (row["samples_per_s"] - low) / (high - low) if high > low else 0.5
        bar = "●".rjust(1 + round((length - 1) * share), "─").ljust(length, "─")
        yield f"{significant(size * low)} ├{bar}┤ {significant(size * high)}"
    if row["ttft_ms"] is not None:
        yield f"first token {significant(row['ttft_ms'])} ms"
    for name, what in (("tpot", "token"), ("latency", "step")):
        yield tails(row, name).removeprefix("p50 ").replace(" ms", f" ms a {what}", 1)
    if record.measurement and record.measurement.serving:
        yield from _requests(record.measurement.serving)


def _requests(serving: Serving) -> Iterator[str]:
    """Yields the latencies of requests, how many requests there were, and how many missed the limit."""
    for quantile in serving.latencies:
        if quantile.seconds is not None:
            yield f"p{quantile.percentile:g} {significant(1000 * quantile.seconds)} ms"
    yield f"{counted(serving.num_requests, 'request')} in {duration(serving.duration_s)}"
    if serving.num_missed is not None:
        yield f"{significant(serving.offered_per_s)}/s offered"
        yield f"{serving.num_missed:,} took longer"


def _step(row: Row, width: int) -> Iterator[Text]:
    """Yields a bar of a step's phases, and a line with their names and shares."""
    phases = phases_ms(row)
    total = sum(phases.values())
    if not total:
        return
    bar, names = Text(), Text()
    room = width - len("  step")
    done = 0.0
    # The ends of the parts are rounded, not their lengths, so that the total length stays.
    for (phase, value), (fill, colour) in zip(phases.items(), cycle(FILLS)):
        start = round(room * done / total)
        done += value
        bar.append(fill * (round(room * done / total) - start), colour)
        if value >= 0.005 * total:
            names.append(GAP if names else "").append(
                f"{phase.replace('_', ' ')} {100 * value / total:.0f} %", colour
            )
    yield bar.append("  step", "dim")
    yield names


def _use(record: Record, row: Row, width: int) -> Iterator[str]:
    """Yields the share of the peak speed, the memory, the time of all epochs, and the accuracy."""
    cell = record.cell
    share, ceiling = row["mfu"], row["ceiling_flops_per_s"]
    if share is not None and ceiling is not None:
        unit, size = unit_of_work(ceiling, is_quantized=cell.precision in QUANTIZED)
        text = f" {significant(100 * share)} % of {significant(ceiling / size)} {unit}"
        length = max(LEAST_BAR, min(MOST_BAR, width - len(text) - 5))
        filled = "━" * max(1, round(length * min(1.0, share)))
        yield f"peak {filled:─<{length}}{text}"
    if row["bound"] is not None:
        yield f"bound by {row['bound']}"
    if row["time_s"] is not None:
        what = counted(cell.epochs, "epoch") if cell.mode == Mode.train else "test set"
        estimated = " estimated" if row["time_provenance"] == Provenance.estimated else ""
        yield f"{what} {significant(row['time_s'])} s{estimated}"
    for name, column, size, unit in FIGURES:
        if row[column] is not None and (column != "tokens_per_s" or cell.mode != Mode.generate):
            yield f"{name} {significant(size * row[column])}{unit}"
    error = output_error_text(cell.precision, row["output_error"])
    if error:
        yield f"output differs from fp32's by {error}"


def _remarks(record: Record, row: Row, is_verbose: bool) -> Iterator[str]:
    """The checks, doubts, notes and tips, each after its mark."""
    is_ok = record.status == Status.ok
    checked = record.measurement.checked if record.measurement and is_ok and not row["disturbed"] else []
    if checked:
        yield f"✓ checked: {', '.join(checked)}"
    if record.data is not None and record.data.stand_in and is_ok and not row["disturbed"]:
        yield f"! stand-in for {record.data.name}: the speed is valid, not the accuracy"
    doubts = warnings_of(row)
    shown = len(doubts) if is_verbose else MAX_DOUBTS
    yield from (f"! {doubt}" for doubt in doubts[:shown])
    if len(doubts) > shown:
        yield f"! {and_more(len(doubts) - shown, 'doubt')}: -v"
    notes = [note for note in remarks_in(row, Kind.note) if is_verbose or not note.startswith(NOISY)]
    if notes:
        yield f"- {'; '.join(notes)}"
    for tip in remarks_in(row, Kind.tip):
        yield f"→ {tip if is_verbose else tip.partition(', ')[0]}"


def _packed(parts: Iterable[str | None], width: int, between: str = GAP, style: str = "") -> Iterator[Text]:
    """Joins the parts into lines of at most `width` columns. `style` applies only to the first part."""
    line = Text()
    for part in filter(None, parts):
        if line and len(line) + len(between) + len(part) > width:
            yield line
            line = Text()
        line.append(between if line else "").append(part, style)
        style = ""
    if line:
        yield line
