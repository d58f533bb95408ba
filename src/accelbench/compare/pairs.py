"""The processes of A and B -> pairs of cells that are equal in all settings but those compared."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from accelbench.compare.record_sets import Process
from accelbench.errors import UserError
from accelbench.schema.cell import Cell
from accelbench.schema.plan_file import labels
from accelbench.schema.serialize import canonical_json
from accelbench.schema.vocab import Status

Settings = dict[str, str]  # a setting's dotted name -> its value as JSON
Varied = dict[str, tuple[list[str], list[str]]]  # a setting's dotted name -> its values in A, and in B, as JSON


@dataclass(frozen=True, kw_only=True)
class Pair:
    """The processes of one cell of A, and those of the matching cell of B."""

    first: list[Process]
    second: list[Process]
    label: str = ""  # of B's cell, without its repeat; no other pair of the comparison has it

    @property
    def is_skipped(self) -> bool:
        """Whether every process was skipped."""
        return all(process.status == Status.skipped for process in self.first + self.second)


class Pairing(NamedTuple):
    """All pairs."""

    pairs: list[Pair]
    varied: Varied  # the compared settings: every cell of A differs in them from every cell of B
    num_unpaired: int  # cells that only A or only B has


def pair(first: Sequence[Process], second: Sequence[Process]) -> Pairing:
    """Pairs the cells of A and B.

    A pair is two cells that differ at most in `repeat`. If there is no such pair, the settings in which A and B have no
    value in common are compared: a pair is then two cells that are equal in all other settings.

    Raises:
        UserError: no two cells match, or more than two do.
    """
    a, b = _by_settings(first), _by_settings(second)
    varied: Varied = {}
    if not set(a) & set(b):
        varied = _varied(*([_flat(_settings(each[0].cell)) for each in groups.values()] for groups in (a, b)))
        a, b = _without(varied, a), _without(varied, b)
    matched = {key: replace(b[key][0].cell, repeat=0) for key in a if key in b}
    if not matched:
        seen = [", ".join(sorted({_label(process) for process in processes})[:4]) for processes in (first, second)]
        raise UserError(f"no cell of A matches one of B. A has {seen[0]}, ...; B has {seen[1]}, ...")
    names = labels(matched.values())
    pairs = [Pair(first=a[key], second=b[key], label=names[cell.id]) for key, cell in matched.items()]
    return Pairing(pairs, varied, len(set(a) ^ set(b)))


def _label(process: Process) -> str:
    return replace(process.cell, repeat=0).label


def _settings(cell: Cell) -> dict[str, Any]:
    """The settings that decide what is measured: all but the repeat."""
    return {name: value for name, value in cell.settings().items() if name != "repeat"}


def _by_settings(processes: Sequence[Process]) -> dict[str, list[Process]]:
    """The processes of each cell, by the cell's settings as JSON."""
    groups = defaultdict(list)
    keys: dict[str, str] = {}  # a cell's settings take 0.1 ms, and most cells are repeats of an earlier one
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


def _varied(first: Sequence[Settings], second: Sequence[Settings]) -> Varied:
    """The settings of which A and B share no value."""
    varied = {}
    for name in dict.fromkeys(name for settings in [*first, *second] for name in settings):
        a, b = ({settings.get(name, "none") for settings in cells} for cells in (first, second))
        if not a & b:
            varied[name] = (sorted(a), sorted(b))
    return varied


def _without(varied: Iterable[str], groups: Mapping[str, list[Process]]) -> dict[str, list[Process]]:
    """The processes of each cell, by its settings other than `varied`. Raises UserError: two are equal in these."""
    cells: dict[str, list[Process]] = {}
    for processes in groups.values():
        flat = _flat(_settings(processes[0].cell))
        key = canonical_json({name: value for name, value in flat.items() if name not in varied})
        if key in cells:
            both = f"{_label(cells[key][0])} and {_label(processes[0])}"
            names = ", ".join(varied)
            raise UserError(f"A and B differ in {names}, and so do {both} of the same side: compare one with one")
        cells[key] = processes
    return cells
