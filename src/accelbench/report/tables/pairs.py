"""Pairs of cells that differ in one setting alone: one table for every setting."""

import math
from collections.abc import Sequence

from accelbench.answers.cells import MeasuredCell
from accelbench.answers.gaps import NOTE
from accelbench.answers.pairs import ENGINE, OPTIONS, STEPS, WEIGHTS, Axis, Pair, pairs
from accelbench.presentation import exact
from accelbench.report.tables.table import Column, Entry, Table, number, tabulate_known, word

PAYS = (
    "Pays after: the steps after which compiling has paid its seconds. Output error: the norm of the difference from "
    "the output of the same weights in plain fp32 on the CPU, as a share of that output's norm."
)


def _pays(pair: Pair) -> Entry:
    steps = pair.steps_to_pay
    if steps is None:
        return word(None)
    return Entry("never", None) if math.isinf(steps) else Entry(exact(int(steps)), steps)


COLUMNS: list[Column[Pair]] = [
    Column("model, and what is done", lambda pair: word(pair.what)),
    Column("differs in", lambda pair: word(pair.axis.name)),
    Column("with", lambda pair: word(pair.value)),
    Column("against", lambda pair: word(pair.base_value)),
    Column("times as fast", lambda pair: number(pair.gap.ratio)),
    Column("how sure", lambda pair: word(pair.gap.how_sure)),
    Column("samples/s", lambda pair: number(pair.cell.speed)),
    Column("against: samples/s", lambda pair: number(pair.base.speed)),
    Column("compile (s)", lambda pair: number(pair.cell.row["compile_s"])),
    Column("pays after (steps)", _pays),
    Column("output error", lambda pair: number(pair.cell.row["output_error"])),
]


def table(title: str, found: Sequence[Pair]) -> Table | None:
    """A line for each pair; None without pairs."""
    axes = {pair.axis.name for pair in found}
    shown = [column for column in COLUMNS if column.heading != "differs in" or len(axes) > 1]
    has_options = OPTIONS.name in axes
    shown = [column for column in shown if has_options or column not in COLUMNS[-3:]]
    return tabulate_known(title, shown, found, [NOTE, *([PAYS] if has_options else [])])


def of_sweep(cells: Sequence[MeasuredCell], axes: Sequence[Axis] = (ENGINE, OPTIONS, STEPS, WEIGHTS)) -> Table | None:
    """The pairs of a sweep's cells in the settings that only some sweeps vary."""
    return table("Pairs that differ in one setting", [pair for axis in axes for pair in pairs(cells, axis)])
