"""Pairs the cells of A and B. The cells of a pair are equal in all settings except the compared ones."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from accelbench.compare.record_sets import ComparedProcess
from accelbench.errors import UserError
from accelbench.schema.plan_file import labels
from accelbench.schema.serialize import canonical_json, flat
from accelbench.schema.vocab import Status

Settings = dict[str, str]  # dotted name of a setting -> its value as JSON


@dataclass(frozen=True, kw_only=True)
class Match:
    """A pair: the processes of a cell of A, and the processes of the matching cell of B."""

    first: list[ComparedProcess]
    second: list[ComparedProcess]
    label: str = ""  # label of B's cell without its repeat; different from other pairs' labels

    @property
    def is_skipped(self) -> bool:
        """Whether every process was skipped."""
        return all(process.outcome == Status.skipped for process in self.first + self.second)


class Matching(NamedTuple):
    """The pairs of a comparison."""

    pairs: list[Match]
    # The compared settings: no value of A is a value of B. Dotted name -> values in A and in B, such as `8 | 32, 64`.
    varied: dict[str, str]
    num_unpaired: int  # number of cells that are in only one of A and B


def match(first: Sequence[ComparedProcess], second: Sequence[ComparedProcess]) -> Matching:
    """Pairs the cells of A and B.

    Two cells are a pair if all their settings except `repeat` are equal. If this gives no pair, A and B are compared by
    settings for which they have no value in common, such as `engine=keras` in A and `engine=pytorch` in B. Two cells
    are then a pair if all their other settings are equal.

    Raises UserError: no cell of A matches a cell of B, or several cells of one side match the same cell.
    """
    sides = [[(process, _settings(process)) for process in side] for side in (first, second)]
    a, b = map(_cells, sides)
    varied: dict[str, str] = {}
    if not set(a) & set(b):
        varied = _varied(*([settings for _, settings in side] for side in sides))
        a, b = (_cells(side, varied) for side in sides)
    matched = {key: replace(b[key][0].cell, repeat=0) for key in a if key in b}
    if not matched:
        names = [", ".join(sorted(set(map(_label, processes)))[:4]) for processes in (first, second)]
        raise UserError(f"no cell of A matches a cell of B. A has {names[0]}, ...; B has {names[1]}, ...")
    labels_of = labels(matched.values())
    pairs = [Match(first=a[key], second=b[key], label=labels_of[cell.id]) for key, cell in matched.items()]
    return Matching(pairs, varied, len(set(a) ^ set(b)))


def _label(process: ComparedProcess) -> str:
    return replace(process.cell, repeat=0).label


def _settings(process: ComparedProcess) -> Settings:
    """Returns the settings of a cell. `repeat` is always 0."""
    return flat(replace(process.cell, repeat=0).settings())


def _cells(
    side: Sequence[tuple[ComparedProcess, Settings]], but: Collection[str] = ()
) -> dict[str, list[ComparedProcess]]:
    """Groups the processes by a key of their cell, which does not depend on the settings in `but`.

    Raises UserError: two different cells have the same key.
    """
    groups: dict[str, list[ComparedProcess]] = defaultdict(list)
    whole: dict[str, Settings] = {}
    for process, settings in side:
        key = canonical_json({name: value for name, value in settings.items() if name not in but})
        groups[key].append(process)
        if whole.setdefault(key, settings) != settings:
            raise UserError(
                f"A and B differ in {', '.join(but)}, but A or B has several values itself: "
                f"{_label(groups[key][0])} and {_label(process)}. Give each side one value"
            )
    return groups


def _varied(first: Sequence[Settings], second: Sequence[Settings]) -> dict[str, str]:
    """Returns the settings for which A and B have no common value, with the values of both."""
    varied = {}
    for name in dict.fromkeys(name for settings in [*first, *second] for name in settings):
        a, b = ({settings.get(name, "none") for settings in side} for side in (first, second))
        if not a & b:
            varied[name] = " | ".join(", ".join(sorted(map(_shown, values))) for values in (a, b))
    return varied


def _shown(value: str) -> str:
    return "not set" if value == "null" else value.strip('"')
