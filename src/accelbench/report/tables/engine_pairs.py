"""Engines on the same cell: cells that differ only in the framework that ran them, side by side."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from accelbench.compare import confidence
from accelbench.presentation import significant
from accelbench.report.read import ReportedCell, Sweep
from accelbench.report.tables.cell_columns import SETTINGS
from accelbench.report.tables.table import Column, Table, columns_of, number, tabulate_known, word
from accelbench.schema.cell import Cell
from accelbench.schema.serialize import group_key
from accelbench.schema.vocab import Engine

ENGINE_SETTINGS = ("engine", "keras", "xla_processes")  # settings that only one engine has, and the engine
NOTES = [
    "Each row: two cells with the same settings, data and machine that differ only in the engine and its settings. The "
    "ratio is the second's samples/s over the first's: above 1, the second is faster. Of several repeats, the first is "
    "shown.",
    "Lightning is measured like a plain training loop. Training on Keras is measured like `fit(verbose=0)`, with "
    "callbacks and (on TensorFlow) tf.data: a few percent of a step of a few milliseconds.",
    confidence.NOTE,
]


@dataclass(frozen=True)
class EngineRatio:
    """A cell's speed over that of its counterpart on the first engine.

    Attributes:
        pair: a name that the counterparts of all engines share.
        text: such as `0.82 x lightning's samples/s`; None for the first engine's cell.
    """

    pair: str
    text: str | None


@dataclass(frozen=True)
class EnginePair:
    """The ok repeats of a cell on one engine, and of its counterpart on another."""

    first: list[ReportedCell]
    second: list[ReportedCell]

    @property
    def cell(self) -> Cell:
        """The first engine's cell."""
        return self.first[0].cell


def framework(cell: Cell) -> str:
    """The engine with its own settings, such as `keras jax jit_compile`."""
    per_device = ["xla_processes"] if cell.xla_processes else []
    return " ".join([cell.engine.value, *(cell.keras.non_defaults if cell.keras else []), *per_device])


COLUMNS: list[Column[EnginePair]] = [
    *columns_of(lambda pair: pair.first[0], SETTINGS, "network", "mode", "device", "precision", "batch", "options"),
    Column("protocol", lambda pair: word(pair.cell.protocol)),
    Column("first", lambda pair: word(framework(pair.cell))),
    Column("second", lambda pair: word(framework(pair.second[0].cell))),
    Column("second / first (x)", lambda pair: number(_ratio(pair.first[0], pair.second[0]))),
    Column("how sure", lambda pair: word(str(confidence.confidence(pair.first, pair.second)))),
    Column("first: samples/s", lambda pair: number(pair.first[0].row["samples_per_s"])),
    Column("first: low", lambda pair: number(pair.first[0].row["samples_per_s_low"])),
    Column("first: high", lambda pair: number(pair.first[0].row["samples_per_s_high"])),
    Column("second: samples/s", lambda pair: number(pair.second[0].row["samples_per_s"])),
    Column("second: low", lambda pair: number(pair.second[0].row["samples_per_s_low"])),
    Column("second: high", lambda pair: number(pair.second[0].row["samples_per_s_high"])),
]


def table(sweep: Sweep) -> Table | None:
    """Ok cells of two engines; None if no cell was measured with both."""
    return tabulate_known("Engines on the same cell", COLUMNS, _pairs(sweep), NOTES)


def _pairs(sweep: Sweep) -> Iterator[EnginePair]:
    for group in engine_groups(sweep):
        for first, second in combinations(group, 2):
            if first[0].cell.engine != second[0].cell.engine:
                yield EnginePair(first, second)


def engine_groups(sweep: Sweep) -> list[list[list[ReportedCell]]]:
    """The ok cells that were measured on several engines.

    A group holds the cells that differ only in the engine, Lightning's first; each cell is the list of its repeats.
    """
    found: dict[str, dict[str, list[ReportedCell]]] = defaultdict(lambda: defaultdict(list))
    for reported in sweep.cells:
        if reported.is_ok and reported.number("samples_per_s") is not None and not is_single_epoch(reported):
            found[_all_but_engine(reported)][framework(reported.cell)].append(reported)
    groups = [list(by_framework.values()) for by_framework in found.values()]
    order = list(Engine)
    return [
        sorted(group, key=lambda repeats: order.index(repeats[0].cell.engine))
        for group in groups
        if len({repeats[0].cell.engine for repeats in group}) > 1
    ]


def is_single_epoch(reported: ReportedCell) -> bool:
    """Whether only one epoch was run, so that the rate includes tracing and compilation."""
    measured = reported.record.measurement if reported.record is not None else None
    return measured is not None and len(measured.epochs) == 1


def ratios(sweep: Sweep) -> dict[str, EngineRatio]:
    """By record name, how each cell that was measured on several engines compares with the first engine's."""
    found = {}
    for index, group in enumerate(engine_groups(sweep)):
        pair, base = f"{sweep.folder}/{index}", group[0][0]
        for reported in (reported for repeats in group for reported in repeats):
            text = None
            if reported.cell.engine != base.cell.engine:
                text = f"{significant(_ratio(base, reported))} x {framework(base.cell)}'s samples/s"
            found[reported.name] = EngineRatio(pair, text)
    return found


def _all_but_engine(reported: ReportedCell) -> str:
    """What the counterparts of all engines share: settings, data and machine."""
    machine = reported.record.environment.get("machine") if reported.record else None
    return group_key([reported.all_but(*ENGINE_SETTINGS, "repeat"), machine])


def _ratio(first: ReportedCell, second: ReportedCell) -> float | None:
    first_rate, second_rate = first.number("samples_per_s"), second.number("samples_per_s")
    return second_rate / first_rate if first_rate and second_rate is not None else None
