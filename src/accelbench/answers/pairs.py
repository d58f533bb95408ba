"""Pairs of cells that differ in only one setting."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from accelbench.answers.cells import PROCESS_SETTINGS, MeasuredCell
from accelbench.answers.gaps import Gap, Word, gap
from accelbench.answers.words import engine_text, feeding_text, model_text, setting_name, switches_text
from accelbench.presentation import counted, significant
from accelbench.schema.cell import Options
from accelbench.schema.vocab import Device, Engine, Precision


class Axis(NamedTuple):
    """A setting whose values are compared."""

    name: str
    question: str
    base_text: str  # the base value in words; other values are compared with it
    fields: tuple[str, ...]  # fields of a cell; the cells of a pair are equal in all other fields
    base_value: object  # of the first field; None: the base is the smallest batch
    text: Callable[[MeasuredCell], str]  # a cell's value in words

    def base(self, alike: Sequence[MeasuredCell]) -> MeasuredCell | None:
        """Returns the cell with which the other cells of `alike` are compared. `alike` differ only in `fields`.

        It is the first cell with the base value. None if no cell has this value. For batch sizes, it is the smallest.
        """
        if self.base_value is None:
            return min(alike, key=lambda cell: cell.cell.batch_size)
        return next((cell for cell in alike if getattr(cell.cell, self.fields[0]) == self.base_value), None)


OF_ENGINE = ("engine", "keras", "xla_processes")
DEVICE = Axis(
    "device",
    "Which device?",
    "the CPU",
    ("device",),
    Device.cpu,
    lambda cell: cell.cell.device,
)
PRECISION = Axis(
    "precision",
    "Which precision?",
    "fp32",
    ("precision",),
    Precision.fp32,
    lambda cell: cell.cell.precision,
)
BATCH = Axis(
    "batch",
    "Which batch size?",
    "the smallest batch",
    ("batch_size",),
    None,
    lambda cell: f"batch {cell.cell.batch_size}",
)
ENGINE = Axis(
    "engine",
    "Which engine?",
    "PyTorch",
    OF_ENGINE,
    Engine.pytorch,
    lambda cell: engine_text(cell.row),
)
OPTIONS = Axis(
    "options",
    "Which options?",
    "no options",
    ("options",),
    Options(),
    lambda cell: switches_text(cell.row) or "no options",
)
AXES = (DEVICE, PRECISION, BATCH, ENGINE, OPTIONS)


@dataclass(frozen=True)
class Pair:
    """Two cells that differ in one setting. The gap is the speed of `cell` divided by the speed of `base`."""

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
    def value(self) -> str:
        """The setting's value in the cell."""
        return self.axis.text(self.cell)

    @property
    def base_value(self) -> str:
        """The setting's value in the base."""
        return self.axis.text(self.base)

    @property
    def what(self) -> str:
        """The work of both cells, and the settings of the base, such as `mlp infer, PyTorch fp32 b16`."""
        work = " ".join(filter(None, [model_text(self.base), self.base.cell.mode.value, feeding_text(self.base)]))
        is_named = self.base.cell.device != Device.cpu
        return f"{work}, {setting_name(self.base, has_batch=self.axis is not BATCH, has_device=is_named)}"


def pairs(cells: Iterable[MeasuredCell], axis: Axis) -> list[Pair]:
    """Pairs each cell with the cell that has the axis's base value, such as fp32. The two differ in no other setting.

    The cells of a pair ran on one machine with the same packages. Trainings of one epoch are left out, because their
    speed includes compilation.
    """
    groups: dict[tuple[str, str], dict[str, MeasuredCell]] = defaultdict(dict)
    for cell in cells:
        if cell.competes and not (cell.measurement and len(cell.measurement.epochs) == 1):
            alike = cell.all_but(*PROCESS_SETTINGS, *axis.fields)
            groups[alike, cell.place_key].setdefault(cell.measured_key, cell)
    made = []
    for group in groups.values():
        base = axis.base(list(group.values()))
        if base is None:
            continue
        for cell in group.values():
            if axis.text(cell) != axis.text(base):
                made.append(Pair(axis, gap(cell, base)))
    return made


def told(alike: Iterable[Pair]) -> list[float]:
    """Returns the ratios that are sure or likely."""
    return [pair.gap.ratio for pair in alike if pair.gap.is_told]


def summary(alike: Sequence[Pair], value: str, base: str) -> str:
    """Text such as `bf16 is 1.28 to 3.39 times as fast as fp32 in 5 of 6 pairs (4 sure, 1 likely, 1 can't tell)`."""
    ratios = told(alike)
    nums = Counter(pair.gap.word for pair in alike)
    words = ", ".join(f"{nums[word]} {word}" for word in Word if nums[word])
    about = f"{counted(len(alike), 'pair')} ({words})"
    if not ratios:
        return f"{value} and {base}: {about}"
    return f"{value} is {span(ratios)} times as fast as {base} in {len(ratios)} of {about}"


def span(ratios: Sequence[float], digits: int = 3) -> str:
    """Returns the smallest and the largest ratio as text, such as `1.28 to 3.39`. Empty if there are no ratios."""
    return " to ".join(dict.fromkeys(significant(end(ratios), digits) for end in (min, max))) if ratios else ""
