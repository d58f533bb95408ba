"""Two sides' processes -> pairs of cells that are alike in all but what is compared."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from accelbench.compare.record_sets import Process
from accelbench.compare.verdict import Comparison, compare
from accelbench.errors import UserError
from accelbench.schema.cell import Cell
from accelbench.schema.serialize import canonical_json
from accelbench.schema.vocab import Status

Settings = dict[str, str]  # a setting's dotted name -> its value as JSON


@dataclass(frozen=True, kw_only=True)
class Pair:
    """The processes of one cell on the first side, and of its like on the second."""

    first: list[Process]
    second: list[Process]

    @property
    def label(self) -> str:
        """The first side's cell, for people; its repeats are the processes."""
        return label(self.first[0].cell)

    @property
    def is_skipped(self) -> bool:
        """Whether nothing ran on either side, nor should have."""
        return all(process.status == Status.skipped for process in self.first + self.second)

    @property
    def took_turns(self) -> bool:
        """Whether the sides changed places as often as rounds that have each side once make sure of."""
        starts = [(one.started_at, which) for which, side in enumerate((self.first, self.second)) for one in side]
        order = [which for _, which in sorted(starts)]
        num_changes = sum(before != after for before, after in pairwise(order))
        return num_changes >= min(len(self.first), len(self.second))

    def compare(self, *, anyway: bool) -> Comparison:
        """The second side's speed over the first's, of the processes that ended well.

        Args:
            anyway: whether it may be told without turns.
        """
        first, second = ([one.rates for one in side if one.rates] for side in (self.first, self.second))
        return replace(compare(first, second), is_told=anyway or self.took_turns)


@dataclass(frozen=True, kw_only=True)
class Pairing:
    """All pairs.

    Attributes:
        varied: settings in which every cell of one side differs from every one of the other: name -> the values of
            each side, as JSON. They are what is compared.
        num_alone: cells that only one side has.
    """

    pairs: list[Pair]
    varied: dict[str, tuple[list[str], list[str]]] = field(default_factory=dict)
    num_alone: int = 0


def pair(first: Sequence[Process], second: Sequence[Process]) -> Pairing:
    """Pairs the cells of two sides.

    Cells that are equal but for `repeat` are a pair. Where no two are, settings of which the two sides share no value
    are what is compared, and cells that are equal in all others are a pair.

    Raises:
        UserError: no two cells are alike, or more than two are.
    """
    sides = [_by_settings(processes) for processes in (first, second)]
    varied: dict[str, tuple[list[str], list[str]]] = {}
    if not set(sides[0]) & set(sides[1]):
        flat = [[_flat(_settings(processes[0].cell)) for processes in side.values()] for side in sides]
        varied = _varied(*flat)
        sides = [_without(varied, side) for side in sides]
    pairs = [Pair(first=sides[0][key], second=sides[1][key]) for key in sides[0] if key in sides[1]]
    if not pairs:
        seen = [", ".join(sorted({label(process.cell) for process in side})[:4]) for side in (first, second)]
        raise UserError(f"no cell of A has its like in B. A has {seen[0]}, ...; B has {seen[1]}, ...")
    return Pairing(pairs=pairs, varied=varied, num_alone=len(set(sides[0]) ^ set(sides[1])))


def label(cell: Cell) -> str:
    """The cell's label without its repeat."""
    return replace(cell, repeat=0).label


def _settings(cell: Cell) -> dict[str, Any]:
    """All that decides what is measured, but which process measures it."""
    return {name: value for name, value in cell.settings().items() if name != "repeat"}


def _by_settings(processes: Sequence[Process]) -> dict[str, list[Process]]:
    groups = defaultdict(list)
    keys: dict[str, str] = {}  # since a cell's settings take 0.1 ms, and most are those of another repeat
    for process in processes:
        written = repr(replace(process.cell, repeat=0))
        if written not in keys:
            keys[written] = canonical_json(_settings(process.cell))
        groups[keys[written]].append(process)
    return dict(groups)


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Settings:
    flat: Settings = {}
    for name, value in settings.items():
        nested = isinstance(value, Mapping)
        flat |= _flat(value, f"{prefix}{name}.") if nested else {prefix + name: canonical_json(value)}
    return flat


def _varied(first: Sequence[Settings], second: Sequence[Settings]) -> dict[str, tuple[list[str], list[str]]]:
    names = dict.fromkeys(name for settings in [*first, *second] for name in settings)
    values = {
        name: tuple(sorted({settings.get(name, "none") for settings in side}) for side in (first, second))
        for name in names
    }
    return {name: (a, b) for name, (a, b) in values.items() if not set(a) & set(b)}


def _without(varied: Iterable[str], side: Mapping[str, list[Process]]) -> dict[str, list[Process]]:
    """The side's cells by their other settings.

    Raises:
        UserError: two of them are alike in these.
    """
    cells: dict[str, list[Process]] = {}
    for processes in side.values():
        flat = _flat(_settings(processes[0].cell))
        key = canonical_json({name: value for name, value in flat.items() if name not in varied})
        if key in cells:
            both = f"{label(cells[key][0].cell)} and {label(processes[0].cell)}"
            raise UserError(
                f"A and B differ in {', '.join(varied)}, and so do {both} of one side: compare one with one"
            )
        cells[key] = processes
    return cells
