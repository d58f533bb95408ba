"""How much a setting gains: pairs of cells that differ in that setting alone."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from accelbench.compare.confidence import Confidence, confidence
from accelbench.report.read import ReportedCell, Sweep
from accelbench.report.tables import best
from accelbench.report.tables.engine_pairs import is_single_epoch
from accelbench.report.tables.in_turns import in_turns
from accelbench.report.tables.options import engine_text, switches_text
from accelbench.report.tables.table import Column, Table, number, tabulate_known, word
from accelbench.schema.cell import Cell, Options
from accelbench.schema.serialize import group_key
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
    text=lambda each: engine_text(each.row),
)
OPTIONS = Compared(
    fields=("options",),
    is_base=lambda cell: cell.options == Options(),
    text=lambda each: switches_text(each.row) or "no options",
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
    """Every ok cell over the one that differs only in the compared setting, which has its base value there.

    Both were measured on one machine with the same packages. Training of a single epoch is left out: its speed
    includes compilation.
    """
    groups: dict[str, list[ReportedCell]] = defaultdict(list)
    workloads = best.workloads(sweeps)
    for cells in workloads:
        for reported in best.typical([each for each in cells if not is_single_epoch(each)]):
            alike = reported.all_but(*compared.fields, "seed", "repeat")
            groups[group_key([alike, reported.place_key])].append(reported)
    processes: dict[str, list[ReportedCell]] = defaultdict(list)
    for each in (each for cells in workloads for each in cells):
        processes[each.measured_key].append(each)
    found = []
    for group in groups.values():
        base = _base(group, compared)
        for reported in group if base is not None else []:
            ratio = reported.over(base, "samples_per_s")
            if base is not None and ratio and compared.text(reported) != compared.text(base):
                sides = [in_turns(each, processes[each.measured_key]) for each in (base, reported)]
                found.append(_gain(reported, base, compared, confidence(*sides), ratio))
    return found


def _base(group: Sequence[ReportedCell], compared: Compared) -> ReportedCell | None:
    if compared.is_base is None:
        return min(group, key=lambda reported: reported.cell.batch_size)
    return next((reported for reported in group if compared.is_base(reported.cell)), None)


def _gain(reported: ReportedCell, base: ReportedCell, compared: Compared, confidence: Confidence, ratio: float) -> Gain:
    return Gain(
        what=_what(reported, compared),
        value=compared.text(reported),
        base_value=compared.text(base),
        ratio=ratio if confidence.ratio is None else confidence.ratio,
        reported=reported,
        base=base,
        confidence=confidence,
    )


def _what(reported: ReportedCell, compared: Compared) -> str:
    """What both cells of a pair do, and the settings that they share, but for the usual ones."""
    cell, row = reported.cell, reported.row
    shared = [
        None if compared is BATCH else f"b{cell.batch_size}",
        None if compared is DEVICE or cell.device == Device.cpu else cell.device.value,
        None if compared is PRECISION or cell.precision == Precision.fp32 else cell.precision.value,
        None if compared is OPTIONS else switches_text(row),
        None if compared is ENGINE or cell.engine == Engine.lightning else engine_text(row),
        None if row["asked_threads"] is None else f"{row['asked_threads']} threads",
        best.feeding_text(reported),
    ]
    return " ".join(filter(None, [best.model_text(reported), cell.mode.value, *shared]))
