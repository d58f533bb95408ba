"""How much a setting gains: pairs of cells that differ in that setting alone."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from accelbench.report.read import ReportedCell, Sweep
from accelbench.report.tables import best
from accelbench.report.tables.confidence import Confidence, confidence
from accelbench.report.tables.options import options_text
from accelbench.report.tables.table import Column, Table, number, tabulate_known, word
from accelbench.schema.cell import Cell, Options
from accelbench.schema.serialize import canonical_json
from accelbench.schema.vocab import Device, Engine, Precision


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A setting whose values are compared.

    Attributes:
        fields: of the cells; pairs are equal in all others.
        is_base: whether a cell has the value that the others are compared with; None if the smallest batch is it.
        text: a cell's value in words.
    """

    fields: tuple[str, ...]
    is_base: Callable[[Cell], bool] | None
    text: Callable[[ReportedCell], str]


DEVICE = Compared(
    fields=("device",), is_base=lambda cell: cell.device == Device.cpu, text=lambda each: each.cell.device.value
)
PRECISION = Compared(
    fields=("precision",),
    is_base=lambda cell: cell.precision == Precision.fp32,
    text=lambda each: each.cell.precision.value,
)
BATCH = Compared(fields=("batch_size",), is_base=None, text=lambda each: f"batch {each.cell.batch_size}")
ENGINE = Compared(
    fields=("engine", "keras"),
    is_base=lambda cell: cell.engine == Engine.lightning,
    text=lambda each: options_text(each.row) or each.cell.engine.value,
)
OPTIONS = Compared(
    fields=("options",), is_base=lambda cell: cell.options == Options(), text=lambda each: options_text(each.row) or ""
)


@dataclass(frozen=True, kw_only=True)
class Gain:
    """The speed of a cell over that of another one.

    Attributes:
        what: what both do, such as `resnet18 infer b16`.
        value: the compared setting's value in the first cell, and in the base.
        ratio: of their samples/s; above 1, the first is faster.
    """

    what: str
    value: str
    base_value: str
    ratio: float
    reported: ReportedCell
    base: ReportedCell
    confidence: Confidence


COLUMNS: list[Column[Gain]] = [
    Column("model, and what is done", lambda gain: word(gain.what)),
    Column("with", lambda gain: word(gain.value)),
    Column("against", lambda gain: word(gain.base_value)),
    Column("times as fast", lambda gain: number(gain.ratio)),
    Column("how sure", lambda gain: word(str(gain.confidence))),
    Column("samples/s", lambda gain: number(gain.reported.number("samples_per_s"))),
    Column("against: samples/s", lambda gain: number(gain.base.number("samples_per_s"))),
]


def table(title: str, found: Sequence[Gain]) -> Table | None:
    """A line for each pair; None without pairs."""
    return tabulate_known(title, COLUMNS, found)


def gains(sweeps: Sequence[Sweep], compared: Compared) -> list[Gain]:
    """Every ok cell over the one that differs only in the compared setting, which has its base value there."""
    groups: dict[str, list[ReportedCell]] = defaultdict(list)
    repeats: dict[str, list[ReportedCell]] = defaultdict(list)
    for cells in best.workloads(sweeps):
        for each in cells:
            repeats[each.measured_key].append(each)
        for reported in best.typical(cells):
            groups[canonical_json(reported.all_but(*compared.fields, "seed", "repeat"))].append(reported)
    found = []
    for group in groups.values():
        if (base := _base(group, compared)) is not None:
            found += [_gain(each, base, compared, repeats) for each in group if each is not base]
    return found


def _base(group: Sequence[ReportedCell], compared: Compared) -> ReportedCell | None:
    if compared.is_base is None:
        return min(group, key=lambda reported: reported.cell.batch_size)
    return next((reported for reported in group if compared.is_base(reported.cell)), None)


def _gain(
    reported: ReportedCell, base: ReportedCell, compared: Compared, repeats: dict[str, list[ReportedCell]]
) -> Gain:
    sides = [_in_turns(each, repeats[each.measured_key]) for each in (base, reported)]
    return Gain(
        what=_what(reported, compared),
        value=compared.text(reported),
        base_value=compared.text(base),
        ratio=reported.over(base, "samples_per_s") or 0.0,
        reported=reported,
        base=base,
        confidence=confidence(*sides),
    )


def _in_turns(typical: ReportedCell, repeats: Sequence[ReportedCell]) -> list[ReportedCell]:
    """The processes of a cell, the typical one first; only the confirming ones if there are such."""
    found = [typical, *(each for each in repeats if each is not typical)]
    return [each for each in found if each.is_confirming] or found


def _what(reported: ReportedCell, compared: Compared) -> str:
    """What both cells of a pair do, and the settings that they share, but for the usual ones."""
    cell, row = reported.cell, reported.row
    words = [best.model_text(reported), cell.mode.value]
    if compared is not BATCH:
        words.append(f"b{cell.batch_size}")
    if compared is not DEVICE and cell.device != Device.cpu:
        words.append(cell.device.value)
    if compared is not PRECISION and cell.precision != Precision.fp32:
        words.append(cell.precision.value)
    if compared not in (ENGINE, OPTIONS) and (options := options_text(row)):
        words.append(options)
    return " ".join(words)
