"""The card of one cell on a terminal: speed and latency with intervals, a step's phases, and the warnings."""

from collections.abc import Iterator, Mapping

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from accelbench.judging.disturbed import DISTURBED
from accelbench.judging.row import phases_ms, summarise, warnings_of
from accelbench.judging.warnings import output_error_text
from accelbench.presentation import and_more, checked_words, significant
from accelbench.schema.record import Record, Row, number_of
from accelbench.schema.vocab import QUANTIZED, Mode, Phase, Provenance, Status

BAR_WIDTH = 48
MAX_WARNINGS = 3
NAME_WIDTH = 8
GIGA = 1e9
MAX_ERROR_LINES = 16  # of the user's own code; a traceback through frameworks is longer, and is in the record
# Phases that follow each other also differ in their fill, for readers without colours.
PHASES = {
    Phase.data_wait: ("░", "red"),
    Phase.copy_in: ("▒", "yellow"),
    Phase.forward: ("█", "blue"),
    Phase.backward: ("▓", "cyan"),
    Phase.optimizer: ("█", "green"),
    Phase.trace: ("░", "white"),
    Phase.execute: ("█", "blue"),
    Phase.copy_out: ("▒", "bright_yellow"),
    Phase.framework: ("░", "magenta"),
}


def show(record: Record, path: str, console: Console) -> None:
    """Prints the card of a record of any status, whose file is at `path`; unknown figures have no line."""
    row = summarise(record)
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True, min_width=NAME_WIDTH)
    table.add_column(overflow="fold")
    table.add_row("cell", Text(f"{record.label}: {_outcome(record, row)}{_conditions(record, row)}"))
    if record.reason:
        table.add_row("reason", Text(record.reason))
    if row["disturbed"]:
        table.add_row("reason", Text(f"{row['disturbed']}, so its numbers are not published"))
    if record.error and record.cell.own_code and len(record.error.splitlines()) <= MAX_ERROR_LINES:
        table.add_row("error", Text(_frames(record.error), "dim"))
    if record.status == Status.ok and not row["disturbed"]:
        for name, content in _figures(record, row):
            table.add_row(name, content)
    notes = record.measurement.notes if record.measurement else []
    for note in notes:
        table.add_row("note", Text(note))
    warnings = [warning for warning in warnings_of(row) if warning not in notes]
    num_shown = len(warnings) if len(warnings) <= MAX_WARNINGS else MAX_WARNINGS - 1
    for warning in warnings[:num_shown]:
        table.add_row("warning", Text(warning, "yellow"))
    if num_shown < len(warnings):
        table.add_row("", Text(f"{and_more(len(warnings) - num_shown, 'warning')}, in the record", "yellow"))
    console.print()
    console.print(Padding(table, (0, 0, 0, 2), expand=False))
    show_places({"record": path}, console)


def _frames(error: str) -> str:
    """A traceback without the exception's own message, which the reason says."""
    lines = error.splitlines()
    while lines and not lines[-1].startswith(" "):
        lines.pop()
    return "\n".join(lines) or error.rstrip()


def show_places(places: Mapping[str, str], console: Console) -> None:
    """Prints where to find more: name -> path or address. They are no part of the table, which would wrap them."""
    for name, place in places.items():
        console.print(Text.assemble("  ", (f"{name:<{NAME_WIDTH + 2}}", "bold"), place), soft_wrap=True)


def _outcome(record: Record, row: Row) -> str:
    if row["disturbed"]:
        return DISTURBED
    speed = number_of(row, "samples_per_s")
    return record.status.value if record.status != Status.ok or speed is None else f"{significant(speed, 4)} samples/s"


def _conditions(record: Record, row: Row) -> str:
    parts = []
    if row["device_name"] is not None:
        parts.append(f" on {row['device_name']}")
    if record.data is not None and record.status == Status.ok:
        parts.append(f", {record.data.name}" + " (a stand-in)" * record.data.stand_in)
    return "".join(parts)


def _figures(record: Record, row: Row) -> Iterator[tuple[str, RenderableType]]:
    cell = record.cell
    if interval := _interval(row, "samples_per_s", 4):
        yield "speed", Text(f"{interval} samples/s with 95 % confidence, in this process")
    if (tokens := number_of(row, "tokens_per_s")) is not None:
        yield "tokens", Text(f"{significant(tokens, 4)} tokens/s")
    tails = [(percent, number_of(row, f"latency_p{percent}_ms")) for percent in (50, 90, 99)]
    if known := [f"p{percent} {significant(value)} ms" for percent, value in tails if value is not None]:
        interval = _interval(row, "latency_p50_ms", 3)
        yield "latency", Text(", ".join(known) + (f"  (p50 {interval} ms)" if interval else ""))
    phases = phases_ms(row)
    if total := sum(phases.values()):
        yield "step", _bar(phases, total)
        percents = {phase.replace("_", " "): 100 * ms / total for phase, ms in phases.items()}
        words = [f"{phase} {percent:.0f} %" for phase, percent in percents.items() if percent >= 0.5]
        yield "", Text(f"{significant(total)} ms: {', '.join(words)}")
    if limit := _limit(record, row):
        yield "limit", Text(limit)
    peaks = {"the processes": number_of(row, "peak_host_mb"), "the device": number_of(row, "peak_device_mb")}
    if known := [f"{significant(peak)} MB of {place}" for place, peak in peaks.items() if peak is not None]:
        yield "memory", Text("at most " + ", ".join(known))
    if (time_s := number_of(row, "time_s")) is not None:
        epochs = f"{cell.epochs} epoch{'s' * (cell.epochs > 1)}"
        whole = f"training for {epochs}" if cell.mode == Mode.train else "inference over the test set"
        estimated = row["time_provenance"] == Provenance.estimated
        yield "time", Text(f"{whole} takes {significant(time_s)} s" + " (estimated from the speed)" * estimated)
    qualities = {
        "test accuracy": number_of(row, "accuracy"),
        "training accuracy": number_of(row, "train_accuracy"),
    }
    known = [f"{name} {100 * value:.2f} %" for name, value in qualities.items() if value is not None]
    if error := output_error_text(cell.precision, number_of(row, "output_error")):
        known.append(f"output differs from fp32's by {error} for two samples")
    if known:
        yield "quality", Text(", ".join(known))
    if record.measurement is not None and (checked := checked_words(record.measurement.checks, fully=True)):
        yield "checked", Text(checked)


def _bar(phases: Mapping[Phase, float], total: float) -> Text:
    """A step's wall time as a bar of phases; rounding their ends, not their lengths, keeps the total width."""
    bar, done = Text(), 0.0
    for phase, value in phases.items():
        start = round(BAR_WIDTH * done / total)
        done += value
        fill, colour = PHASES[phase]
        bar.append(fill * (round(BAR_WIDTH * done / total) - start), colour)
    return bar


def _limit(record: Record, row: Row) -> str:
    """What bounds the speed, and how near it comes to what the devices can do; empty if neither is known."""
    parts = [] if row["bound"] is None else [f"bound by {row['bound']}"]
    share, ceiling = number_of(row, "mfu"), number_of(row, "ceiling_flops_per_s")
    if share is not None and ceiling is not None:
        devices = "device's" if record.measurement is None or record.measurement.num_devices == 1 else "devices'"
        unit = "GOP/s" if record.cell.precision in QUANTIZED else "GFLOP/s"
        parts.append(f"{100 * share:.1f} % of the {devices} {significant(ceiling / GIGA)} {unit}, as probed")
    return ", ".join(parts)


def _interval(row: Row, column: str, digits: int) -> str:
    """The 95 % interval, such as `3 to 5`; empty if it is unknown."""
    low, high = (number_of(row, f"{column}_{end}") for end in ("low", "high"))
    return "" if low is None or high is None else f"{significant(low, digits)} to {significant(high, digits)}"
