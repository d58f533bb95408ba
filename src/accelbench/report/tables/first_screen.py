"""The report's first screen: what to use for each model, how sure that is, and which devices were there."""

from collections import Counter
from collections.abc import Sequence

from accelbench.presentation import UNKNOWN, significant
from accelbench.report.read import ReportedCell, Sweep
from accelbench.report.tables import best, confidence
from accelbench.report.tables.options import named
from accelbench.report.tables.table import Entry, Table, count, number, word
from accelbench.schema.record import Row
from accelbench.schema.vocab import Device, Engine

# What is wanted beside throughput -> the heading of its number.
OTHERS = {"latency": "p50 (ms)", "energy": "J/sample", "money": "cost of a million"}


def table(sweeps: Sequence[Sweep]) -> Table | None:
    """A line for each model and what is done with it: the best cell by each criterion; None where no cell is ok."""
    rows = [_line(cells) for cells in best.groups(sweeps)]
    headings = ["model, and what is done", "most samples/s with", "samples/s", "± (%)", "best of each precision"]
    headings += ["next best", "its samples/s", "behind by", "how sure", "doubts"]
    for wanted, heading in OTHERS.items():
        headings += [f"least {wanted} with", heading]
    notes = [
        "The best ok cell by each criterion that is known; of several repeats and seeds, the one of the middle "
        "throughput (the slower of two) stands for all. ± is half of the 95 % interval within one process. Next best: "
        "the fastest cell of another device, precision, engine or options, or several of them. Best of each precision: "
        "samples/s, for each engine that was measured. Doubts: how many warnings the fastest has; the table of every "
        "cell tells them.",
        confidence.NOTE,
    ]
    return Table(title="What to use", headings=headings, rows=rows, notes=notes).known() if rows else None


def _line(cells: Sequence[ReportedCell]) -> list[Entry]:
    chosen = best.typical(cells)
    by_speed = sorted(chosen, key=lambda planned: -(planned.number("samples_per_s") or 0.0))
    fastest = by_speed[0]
    rate, low, high = (fastest.number(f"samples_per_s{end}") for end in ("", "_low", "_high"))
    assert rate is not None, "only such cells are grouped"
    width = (high - low) / 2 / rate if rate and low is not None and high is not None else None
    several = len({planned.cell.engine for planned in cells}) > 1
    entries = [word(best.what(fastest)), word(_with(fastest.row, several)), number(rate)]
    entries += [number(None if width is None else 100 * width, 2), word(_by_precision(by_speed, several))]
    entries += [*_next_best(by_speed, cells, several), best.doubts(fastest.row)]
    rows = [planned.row for planned in chosen]
    for wanted in OTHERS:
        row = best.best_by(rows, wanted)
        entries += [word(_with(row, several) if row else None), number(row[best.CRITERIA[wanted][0]] if row else None)]
    return entries


def _by_precision(by_speed: Sequence[ReportedCell], several: bool) -> str:
    """The best rate of each precision, such as `bf16 40.2, fp32 19.4`; of each engine where there are several."""
    found: dict[str, dict[str, float]] = {}
    for planned in by_speed:
        rates = found.setdefault(planned.cell.engine, {})
        rates.setdefault(planned.cell.precision, planned.number("samples_per_s") or 0.0)
    words = {
        engine: ", ".join(f"{precision} {significant(rate)}" for precision, rate in rates.items())
        for engine, rates in found.items()
    }
    return "; ".join(f"{engine}: {told}" if several else told for engine, told in words.items())


def _next_best(by_speed: Sequence[ReportedCell], cells: Sequence[ReportedCell], several: bool) -> list[Entry]:
    """The fastest cell of another device, precision, engine or options, how far it is behind, and how sure that is.

    Args:
        by_speed: one process of each cell, the fastest first.
        cells: all processes.
        several: whether engines are chosen between.
    """
    fastest = by_speed[0]
    other = next((planned for planned in by_speed if _place(planned) != _place(fastest)), None)
    if other is None:
        return [word("no other was measured"), number(None), word(None), word(None)]
    rate = other.number("samples_per_s") or 0.0
    lead = 1 - rate / (fastest.number("samples_per_s") or 1.0)
    told = confidence.how_sure(_repeats(other, cells), _repeats(fastest, cells))
    return [
        word(_with(other.row, several)),
        number(rate),
        Entry(f"{significant(100 * lead, 2)} %", 100 * lead),
        word(told),
    ]


def _place(planned: ReportedCell) -> tuple[object, ...]:
    cell = planned.cell
    return cell.device, cell.devices, cell.precision, cell.options, cell.keras


def _repeats(of: ReportedCell, cells: Sequence[ReportedCell]) -> list[ReportedCell]:
    """The processes that measured the same, this one first."""
    return [of, *(each for each in cells if each is not of and each.measured_key == of.measured_key)]


def _with(row: Row, several: bool) -> str:
    """The choice, such as `cpu bf16 b32, channels_last`; with its engine where there are several."""
    first = Engine.lightning if several and row["engine"] == Engine.lightning else None  # `named` has the others
    return ", ".join(filter(None, [f"{row['device']} {row['precision']} b{row['batch_size']}", first, named(row)]))


def machine(table: Table) -> list[str]:
    """Each line of `devices` in a few words: `cpu: AMD EPYC`, or `gpu: not measured (no NVIDIA driver found)`."""
    told = []
    for name, _, what, _, _, why in ([entry.text for entry in row] for row in table.rows):
        told.append(f"{name}: {what}" if what != UNKNOWN else f"{name}: not measured ({why})")
    return told


def devices(sweeps: Sequence[Sweep]) -> Table:
    """Whether each device that was asked for was there: what it is, and how many cells ran on it."""
    cells = [planned for sweep in sweeps for planned in sweep.cells]
    rows = []
    for device in Device:
        mine = [planned for planned in cells if planned.cell.device == device]
        if mine:
            ok = [planned for planned in mine if planned.is_ok]
            names = dict.fromkeys(str(planned.row["device_name"]) for planned in ok if planned.row["device_name"])
            rows.append(
                [word(device), word("yes" if ok else "no"), word("; ".join(names)), count(len(ok)), *_others(mine)]
            )
    headings = ["device", "did it run", "what it is", "cells ok", "cells not ok", "why: the most frequent reason"]
    return Table(title="What was measured on which device", headings=headings, rows=rows)


def _others(cells: Sequence[ReportedCell]) -> list[Entry]:
    """How many cells are not ok, and the most frequent reason of a device's cells."""
    others = [planned for planned in cells if not planned.is_ok]
    reasons = Counter(str(planned.row["reason"]) for planned in others if planned.row["reason"])
    return [count(len(others)), word(reasons.most_common(1)[0][0] if reasons else None)]
