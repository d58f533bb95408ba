"""The ratio of two cells' speeds, and how sure it is. Finds pairs of cells that differ in only one setting."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from accelbench.answers.cells import MIN_PROCESSES, PROCESS_SETTINGS, MeasuredCell
from accelbench.answers.sureness import (
    APART_RATIO,
    LIKELY_RATIO,
    Verdict,
    compare_processes,
    ran_beside_others,
)
from accelbench.answers.words import engine_text, feeding_text, model_text, setting_name, switches_text
from accelbench.judging.row import warnings_of
from accelbench.presentation import counted, significant
from accelbench.schema.cell import Device, Engine, Options, Precision

BESIDE = "other programs used the CPU meanwhile"
# How sure a difference between two cells is. `same`: it is sure that there is no relevant difference.
Word = StrEnum("Word", {"sure": "sure", "same": "same", "likely": "likely", "cant_tell": "can't tell"})


@dataclass(frozen=True, kw_only=True)
class Gap:
    """The first cell's speed divided by the second cell's speed, and how sure this ratio is.

    With enough interleaved processes, the ratio is computed from these and has a 95 % interval. Otherwise, it is
    `speed of the first cell / speed of the second cell`, without an interval.
    """

    first: MeasuredCell
    second: MeasuredCell
    ratio: float
    word: Word
    why: str = ""  # reason besides the interval
    low: float | None = None
    high: float | None = None

    @property
    def text(self) -> str:
        """The ratio in words, such as `1.31 times as fast`."""
        return f"{significant(self.ratio)} times as fast"

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The 95 % interval of the ratio.

        If the ratio has no interval of its own, it is computed from the intervals of both speeds. None if one of them
        is unknown.
        """
        if self.low is not None and self.high is not None:
            return self.low, self.high
        if not (self.first.low and self.first.high and self.second.low and self.second.high):
            return None
        return self.first.low / self.second.high, self.first.high / self.second.low

    @property
    def how_sure(self) -> str:
        """How sure the ratio is, and why: what makes it doubtful, or else its interval."""
        if self.why or self.low is None or self.high is None:
            return f"{self.word}: {self.why}" if self.why else self.word.value
        return f"{self.word}: {significant(self.low)} to {significant(self.high)} times"

    @property
    def cost_s(self) -> float:
        """The expected seconds of the interleaved processes that make the ratio sure."""
        return MIN_PROCESSES * sum(cell.record.wall_s for cell in (self.first, self.second) if cell.record)

    @property
    def is_interleaved(self) -> bool:
        """Whether the ratio is from interleaved processes."""
        return self.low is not None

    @property
    def is_told(self) -> bool:
        """Is true if one of the cells is surely or likely faster."""
        return self.word in (Word.sure, Word.likely)

    @property
    def is_doubtful(self) -> bool:
        """Whether a number of either cell is in doubt."""
        return any(warnings_of(cell.row) for cell in (self.first, self.second))


def gap(first: MeasuredCell, second: MeasuredCell) -> Gap:
    """Divides the speed of `first` by the speed of `second`. Both cells must have a speed.

    If the two cells are swapped, the ratio becomes its reciprocal, and is equally sure.
    """
    sides = [cell.counted for cell in (first, second)]
    beside = BESIDE if any(map(ran_beside_others, sides)) else ""
    interleaved = compare_processes(sides[1], sides[0])
    if interleaved.ratio is not None and interleaved.interleaved:
        word = {Verdict.same: Word.same, Verdict.cant_tell: Word.cant_tell}.get(
            interleaved.verdict(), Word.sure
        )
        why = "" if word == Word.cant_tell else beside
        word = Word.cant_tell if why else word
        low, high = interleaved.low, interleaved.high
        return Gap(
            first=first, second=second, ratio=interleaved.ratio, word=word, why=why, low=low, high=high
        )
    assert first.speed
    assert second.speed
    ratio = first.speed / second.speed
    why = _why_unlikely(first, second, max(ratio, 1 / ratio), beside)
    word = Word.cant_tell if why else Word.likely
    return Gap(first=first, second=second, ratio=ratio, word=word, why=why)


def _why_unlikely(first: MeasuredCell, second: MeasuredCell, ratio: float, beside: str) -> str:
    """Returns why a difference is not likely. Empty if it is likely.

    `beside` says that other programs used the CPU. It is empty if none did.
    """
    is_apart = ratio > APART_RATIO
    if first.low is None or first.high is None or second.low is None or second.high is None:
        return beside if is_apart else "too few blocks for an interval"
    if first.low <= second.high and second.low <= first.high:
        return "the intervals overlap"
    if ratio <= LIKELY_RATIO:
        return "within the usual spread between runs"
    return "" if is_apart else beside


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
        work = " ".join(
            filter(None, [model_text(self.base), self.base.cell.mode.value, feeding_text(self.base)])
        )
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
    return (
        " to ".join(dict.fromkeys(significant(end(ratios), digits) for end in (min, max))) if ratios else ""
    )
