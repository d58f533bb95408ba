"""Pairs of cells that differ in only one setting."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from accelbench.answers.cells import Gap, MeasuredCell, Word, gap
from accelbench.answers.words import choice_text, engine_text, feeding_text, model_text, short_text, switches_text
from accelbench.presentation import counted, significant
from accelbench.schema.cell import Cell, Options
from accelbench.schema.serialize import digest
from accelbench.schema.vocab import Device, Engine, Precision


class Axis(NamedTuple):
    """A setting whose values are compared."""

    name: str
    question: str
    base_text: str  # the base value in words; other values are compared with it
    fields: tuple[str, ...]  # fields of a cell; the cells of a pair are equal in all other fields
    is_base: Callable[[Cell], bool] | None  # whether a cell has the base value; None: the base is the smallest batch
    text: Callable[[MeasuredCell], str]  # a cell's value in words

    def base(self, alike: Sequence[MeasuredCell]) -> MeasuredCell | None:
        """Returns the cell with which the other cells of `alike` are compared. `alike` differ only in `fields`.

        It is the first cell with the base value. None if no cell has this value. For batch sizes, it is the smallest.
        """
        if self.is_base is None:
            return min(alike, key=lambda cell: cell.cell.batch_size)
        return next((cell for cell in alike if self.is_base(cell.cell)), None)


OF_ENGINE = ("engine", "keras", "xla_processes")
DEVICE = Axis(
    "device",
    "Which device?",
    "the CPU",
    ("device",),
    lambda cell: cell.device == Device.cpu,
    lambda cell: cell.cell.device,
)
PRECISION = Axis(
    "precision",
    "Which precision?",
    "fp32",
    ("precision",),
    lambda cell: cell.precision == Precision.fp32,
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
    lambda cell: cell.engine == Engine.pytorch,
    lambda cell: engine_text(cell.row),
)
OPTIONS = Axis(
    "options",
    "Which options?",
    "no options",
    ("options",),
    lambda cell: cell.options == Options(),
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
        """The work of both cells, and the settings of the base, such as `mlp infer, cpu fp32 b16`."""
        work = " ".join(filter(None, [model_text(self.base), self.base.cell.mode.value, feeding_text(self.base)]))
        return f"{work}, {short_text(self.base, choice_text(self.base, has_engines=False))}"


def pairs(cells: Iterable[MeasuredCell], axis: Axis) -> list[Pair]:
    """Pairs each cell with the cell that has the axis's base value, such as fp32. The two differ in no other setting.

    The cells of a pair ran on one machine with the same packages. Trainings of one epoch are left out, because their
    speed includes compilation.
    """
    groups: dict[str, dict[str, MeasuredCell]] = defaultdict(dict)
    for cell in cells:
        if cell.competes and not (cell.measurement and len(cell.measurement.epochs) == 1):
            alike = digest([cell.all_but("seed", "repeat", *axis.fields), cell.place_key])  # all but the axis
            groups[alike].setdefault(cell.measured_key, cell)
    made = []
    for group in groups.values():
        base = axis.base(list(group.values()))
        if base is None:
            continue
        for cell in group.values():
            if axis.text(cell) != axis.text(base):
                made.append(Pair(axis, gap(cell, base)))
    return made


def told(alike: Sequence[Pair]) -> tuple[list[float], list[float]]:
    """Returns two lists of the sure or likely ratios: those above 1, and the reciprocals of those up to 1."""
    ratios = [pair.gap.ratio for pair in alike if pair.gap.is_told]
    return [ratio for ratio in ratios if ratio > 1], [1 / ratio for ratio in ratios if ratio <= 1]


def summary(alike: Sequence[Pair], value: str, base: str) -> str:
    """Text such as `bf16 is 1.28 to 3.39 times as fast as fp32 in 5 of 6 pairs, can't tell in 1 (4 sure, 1 likely)`."""
    gains, losses = told(alike)
    words = Counter(pair.gap.word for pair in alike)
    cases = {
        f"{value} is {span(gains)} times as fast as {base}": len(gains),
        f"{base} is {span(losses)} times as fast as {value}": len(losses),
        "they are equally fast": words[Word.same],
        "can't tell": words[Word.cant_tell],
    }
    first, *others = [f"{text} in {num}" for text, num in cases.items() if num]
    if not gains and not losses:
        first = f"{value} and {base}: {first}"
    about = [f"{words[word]} {word}" for word in (Word.sure, Word.likely) if words[word]]
    if num_doubtful := sum(pair.gap.is_doubtful for pair in alike):
        about.append(f"{num_doubtful} with a number in doubt")
    return ", ".join([f"{first} of {counted(len(alike), 'pair')}", *others]) + (
        f" ({', '.join(about)})" if about else ""
    )


def span(ratios: Sequence[float], digits: int = 3) -> str:
    """Returns the smallest and the largest ratio as text, such as `1.28 to 3.39`. Empty if there are no ratios."""
    return " to ".join(dict.fromkeys(significant(end(ratios), digits) for end in (min, max))) if ratios else ""
