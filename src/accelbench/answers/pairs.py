"""Cells that differ in one setting alone, side by side."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from accelbench.answers.cells import Gap, MeasuredCell, gap
from accelbench.answers.words import engine_text, feeding_text, model_text, switches_text
from accelbench.schema.cell import Cell, Options
from accelbench.schema.interpreters import folder_name
from accelbench.schema.serialize import group_digest
from accelbench.schema.vocab import Device, Engine, Precision

Base = Callable[[Sequence[MeasuredCell]], MeasuredCell | None]


class Axis(NamedTuple):
    """A setting whose values are compared."""

    fields: tuple[str, ...]  # of the cells; pairs are equal in all others
    base: Base  # of cells that differ in nothing else, the one that the others are compared with; None if it lacks
    text: Callable[[MeasuredCell], str]  # a cell's value in words


def _first(is_base: Callable[[Cell], bool]) -> Base:
    return lambda group: next((each for each in group if is_base(each.cell)), None)


DEVICE = Axis(("device",), _first(lambda cell: cell.device == Device.cpu), lambda each: each.cell.device)
IN_FP32 = _first(lambda cell: cell.precision == Precision.fp32)
PRECISION = Axis(("precision",), IN_FP32, lambda each: each.cell.precision)
SMALLEST: Base = lambda group: min(group, key=lambda each: each.cell.batch_size)  # noqa: E731
BATCH = Axis(("batch_size",), SMALLEST, lambda each: f"batch {each.cell.batch_size}")
OF_ENGINE = ("engine", "keras", "xla_processes")
ON_PYTORCH = _first(lambda cell: cell.engine == Engine.pytorch)
ENGINE = Axis(OF_ENGINE, ON_PYTORCH, lambda each: engine_text(each.row))
PLAIN = _first(lambda cell: cell.options == Options())
OPTIONS = Axis(("options",), PLAIN, lambda each: switches_text(each.row) or "no options")
AXES = (DEVICE, PRECISION, BATCH, ENGINE, OPTIONS)


@dataclass(frozen=True)
class Pair:
    """Two cells that differ in one setting; the gap is the speed of the cell over that of the base."""

    axis: Axis
    gap: Gap

    @property
    def cell(self) -> MeasuredCell:
        """The cell that is compared with the base."""
        return self.gap.first

    @property
    def base(self) -> MeasuredCell:
        """The cell with the base value."""
        return self.gap.second

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The 95 % interval of the ratio, of interleaved cells; else what both intervals allow; None if unknown."""
        if self.gap.low is not None and self.gap.high is not None:
            return self.gap.low, self.gap.high
        if not (self.cell.low and self.cell.high and self.base.low and self.base.high):
            return None
        return self.cell.low / self.base.high, self.cell.high / self.base.low

    @property
    def value(self) -> str:
        """The setting's value in the cell."""
        return self.axis.text(self.cell)

    @property
    def base_value(self) -> str:
        """Its value in the base."""
        return self.axis.text(self.base)

    @property
    def what(self) -> str:
        """What both cells do, and the settings that they share, but for the usual ones: such as `mlp infer b16`."""
        cell, row, axis = self.cell.cell, self.cell.row, self.axis
        shared = [
            None if axis is BATCH else f"b{cell.batch_size}",
            None if axis is DEVICE or cell.device == Device.cpu else cell.device.value,
            None if axis is PRECISION or cell.precision == Precision.fp32 else cell.precision.value,
            None if axis is OPTIONS else switches_text(row),
            None if axis is ENGINE or cell.engine == Engine.pytorch else engine_text(row),
            None if row["asked_threads"] is None else f"{row['asked_threads']} threads",
            None if cell.python is None else folder_name(cell.python),
            feeding_text(self.cell),
        ]
        return " ".join(filter(None, [model_text(self.cell), cell.mode.value, *shared]))


def pairs(cells: Iterable[MeasuredCell], axis: Axis) -> list[Pair]:
    """Every cell whose speed compares over those that differ only in the axis, which have its base value there.

    Both were measured on one machine with the same packages. Training of a single epoch is left out: its speed
    includes compilation.
    """
    groups: dict[str, dict[str, MeasuredCell]] = defaultdict(dict)
    for each in cells:
        if each.competes and not (each.measurement and len(each.measurement.epochs) == 1):
            alike = group_digest([each.all_but("seed", "repeat", *axis.fields), each.place_key])  # but for the axis
            groups[alike].setdefault(each.measured_key, each)
    return [
        Pair(axis, gap(each, base))
        for group in groups.values()
        if (base := axis.base(list(group.values()))) is not None
        for each in group.values()
        if axis.text(each) != axis.text(base)
    ]
