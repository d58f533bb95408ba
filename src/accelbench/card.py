"""One cell's result on a terminal: its figures with their intervals, where a step's time goes, and what to doubt."""

from collections.abc import Iterator, Mapping

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from accelbench.record import Record, Row
from accelbench.report.numbers import significant
from accelbench.summary import summarise
from accelbench.vocab import Mode, Phase, Provenance, Status

BAR_WIDTH = 48
GIGA = 1e9
# Neighbours differ in their fill as well, for terminals and eyes without colours.
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


def show(record: Record, places: Mapping[str, str], console: Console) -> None:
    """Prints what is known of `record`, a line or two for each kind of figure; what is unknown has none.

    Args:
        record: of any status; what was measured of a cell that is not ok is not shown.
        places: where more of it is, such as `record`: its file.
        console: where to.
    """
    row = summarise(record)
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    if record.status == Status.ok:
        for name, content in _figures(record, row):
            table.add_row(name, content)
    for warning in str(row["warnings"] or "").split("; "):
        if warning:
            table.add_row("doubt", Text(warning, "yellow"))
    for name, place in places.items():
        table.add_row(name, Text(place, overflow="fold"))
    console.print(Padding(table, (1, 0, 1, 2)), soft_wrap=not console.is_terminal)


def _figures(record: Record, row: Row) -> Iterator[tuple[str, RenderableType]]:
    cell = record.cell
    settings = [cell.mode, cell.device, cell.precision, f"batch {cell.batch_size:,}", f"protocol {cell.protocol}"]
    yield "cell", Text(f"{cell.model.name}: {', '.join(settings)}, on {row['device_name']}")
    if (speed := _number(row, "samples_per_s")) is not None:
        yield "speed", Text(f"{significant(speed, 4)} samples/s{_interval(row, 'samples_per_s', 4)}")
    tails = [(percent, _number(row, f"latency_p{percent}_ms")) for percent in (50, 90, 99)]
    if known := [f"p{percent} {significant(value)} ms" for percent, value in tails if value is not None]:
        yield "latency", Text(", ".join(known) + _interval(row, "latency_p50_ms", 3, "p50 "))
    phases = {phase: _number(row, f"breakdown_{phase}_ms") or 0.0 for phase in Phase}
    if total := sum(phases.values()):
        yield "step", _bar(phases, total)
        shares = [(phase, value / total) for phase, value in phases.items() if value > 0]
        words = [f"{phase.replace('_', ' ')} {share:.0%}" for phase, share in shares]
        yield "", Text(f"{significant(total)} ms: {', '.join(words)}")
    if bound := _bound(row):
        yield "bound", Text(bound)
    peaks = {"the processes": _number(row, "peak_host_mb"), "the device": _number(row, "peak_device_mb")}
    if known := [f"{significant(peak)} MB of {whose}" for whose, peak in peaks.items() if peak is not None]:
        yield "memory", Text("at most " + ", ".join(known))
    if (time_s := _number(row, "time_s")) is not None:
        epochs = f"{cell.epochs} epoch{'s' * (cell.epochs > 1)}"
        whole = f"training for {epochs}" if cell.mode == Mode.train else "inference over the test set"
        estimated = row["time_provenance"] == Provenance.estimated
        yield "time", Text(f"{whole} takes {significant(time_s)} s" + " (estimated from the window)" * estimated)
    qualities = {
        "test accuracy": _number(row, "accuracy"),
        "training accuracy": _number(row, "train_accuracy"),
    }
    if known := [f"{name} {value:.2%}" for name, value in qualities.items() if value is not None]:
        yield "quality", Text(", ".join(known))


def _bar(phases: Mapping[Phase, float], total: float) -> Text:
    """A step's wall time by phase. Each ends where its share of the whole does, rounded, so that lengths add up."""
    bar, done = Text(), 0.0
    for phase, value in phases.items():
        start = round(BAR_WIDTH * done / total)
        done += value
        fill, colour = PHASES[phase]
        bar.append(fill * (round(BAR_WIDTH * done / total) - start), colour)
    return bar


def _bound(row: Row) -> str:
    """What a step waits for longest, and how near it comes to what its device can do."""
    share, ceiling = _number(row, "mfu"), _number(row, "ceiling_flops_per_s")
    words = [f"by {row['bound']}"] if row["bound"] is not None else []
    if share is not None and ceiling is not None:
        words.append(f"{share:.1%} of the {significant(ceiling / GIGA)} GFLOP/s that the device reached when probed")
    return "; ".join(words)


def _interval(row: Row, column: str, digits: int, what: str = "") -> str:
    low, high = (_number(row, f"{column}_{end}") for end in ("low", "high"))
    if low is None or high is None:
        return ""
    return f"  ({what}{significant(low, digits)} to {significant(high, digits)} with 95 % confidence, in this process)"


def _number(row: Row, column: str) -> float | None:
    value = row[column]
    return float(value) if isinstance(value, float | int) else None
