"""Engines on the same cell: cells that are equal in all but the framework that ran them, side by side."""

from collections import defaultdict
from dataclasses import dataclass
from itertools import combinations

from accelbench.presentation import significant
from accelbench.report.read import ReportedCell, Sweep
from accelbench.report.tables import confidence
from accelbench.report.tables.options import named
from accelbench.report.tables.table import Table, count, number, word
from accelbench.schema.cell import Cell
from accelbench.schema.serialize import canonical_json
from accelbench.schema.vocab import Engine

OF_ENGINE = ("engine", "keras", "xla_processes")  # settings that are an engine's own
NOTES = [
    "Each row: two cells that are equal in all settings, data and machine, and differ in nothing but the engine and "
    "its own settings. The ratio is the second's samples/s over the first's: above 1, the second is faster. Of several "
    "repeats the first is shown.",
    "Lightning is measured as a plain loop runs; training on Keras as `fit(verbose=0)` does, with its "
    "callbacks and tf.data (on TensorFlow): some per cent of a step of a few milliseconds.",
    confidence.NOTE,
]


@dataclass(frozen=True)
class Ratio:
    """A cell beside its equal of the first engine.

    Attributes:
        pair: a name that equal cells of several engines share.
        text: such as `0.82 x lightning's samples/s`; None for the first engine's own cell.
    """

    pair: str
    text: str | None


def framework(cell: Cell) -> str:
    """The engine with what is its own, such as `keras jax jit_compile`."""
    apart = ["xla_processes"] if cell.xla_processes else []
    return " ".join([cell.engine.value, *(cell.keras.non_defaults if cell.keras else []), *apart])


def table(sweep: Sweep) -> Table | None:
    """Ok cells of two engines; None where no cell was measured with both."""
    rows = []
    for group in groups(sweep):
        for first, second in combinations(group, 2):
            if first[0].cell.engine == second[0].cell.engine:
                continue
            cell, row = first[0].cell, first[0].row
            rates = [number(side[0].row[f"samples_per_s{end}"]) for side in (first, second) for end in ENDS]
            rows.append(
                [word(cell.model.name), word(cell.mode), word(cell.device), word(cell.precision)]
                + [count(cell.batch_size), word(named(row)), word(cell.protocol)]
                + [word(framework(side[0].cell)) for side in (first, second)]
                + [number(_ratio(first[0], second[0])), word(confidence.how_sure(first, second)), *rates]
            )
    headings = ["network", "mode", "device", "precision", "batch", "options", "protocol", "first", "second"]
    headings += ["second / first (x)", "how sure"]
    headings += [f"{which}: {what}" for which in ("first", "second") for what in ("samples/s", "low", "high")]
    return Table(title="Engines on the same cell", headings=headings, rows=rows, notes=NOTES).known() if rows else None


ENDS = ("", "_low", "_high")


def groups(sweep: Sweep) -> list[list[list[ReportedCell]]]:
    """Ok cells that differ in the engine alone: for each, its repeats; Lightning's first. Only of several engines."""
    found: dict[str, dict[str, list[ReportedCell]]] = defaultdict(lambda: defaultdict(list))
    for planned in sweep.cells:
        if planned.is_ok and planned.number("samples_per_s") is not None and not _is_one_epoch(planned):
            found[_equal(planned)][framework(planned.cell)].append(planned)
    several = [
        list(sides.values()) for sides in found.values() if len({side[0].cell.engine for side in sides.values()}) > 1
    ]
    order = list(Engine)
    return [sorted(sides, key=lambda side: order.index(side[0].cell.engine)) for sides in several]


def _is_one_epoch(planned: ReportedCell) -> bool:
    """Whether its rate is of its first epoch, with all that an engine traces and compiles in it."""
    return (
        planned.record is not None
        and planned.record.measurement is not None
        and (len(planned.record.measurement.epochs) == 1)
    )


def ratios(sweep: Sweep) -> dict[str, Ratio]:
    """The record's name -> how its cell compares with the first engine's, for cells that have an equal."""
    found = {}
    for number_of_pair, group in enumerate(groups(sweep)):
        pair, base = f"{sweep.folder}/{number_of_pair}", group[0][0]
        for side in group:
            for planned in side:
                text = None
                if planned.cell.engine != base.cell.engine:
                    text = f"{significant(_ratio(base, planned))} x {framework(base.cell)}'s samples/s"
                found[planned.name] = Ratio(pair, text)
    return found


def _equal(planned: ReportedCell) -> str:
    """What the cells of all engines share: settings, data and machine."""
    machine = planned.record.environment.get("machine") if planned.record else None
    return canonical_json([planned.all_but(*OF_ENGINE, "repeat"), machine])


def _ratio(first: ReportedCell, second: ReportedCell) -> float | None:
    one, other = first.number("samples_per_s"), second.number("samples_per_s")
    return other / one if one and other is not None else None
