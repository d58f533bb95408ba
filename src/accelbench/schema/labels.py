"""Labels that tell all cells of one folder apart."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from accelbench.schema.cell import Cell, argument_text
from accelbench.schema.text import one_line

ID_LENGTH = 6  # characters of a cell's id in its label


def labels(cells: Iterable[Cell], known: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """A label for each cell, by its id: `Cell.label`, and the settings in which cells of that label differ.

    Args:
        cells: all cells of a folder.
        known: labels of cells that have one already, by id; they stay as they are.
    """
    groups: dict[str, dict[str, Cell]] = defaultdict(dict)
    for cell in cells:
        groups[cell.label][cell.id] = cell
    found = dict(known)
    for label, group in groups.items():
        for cell_id, words in _differences(group).items():
            found.setdefault(cell_id, one_line("-".join([label, *words])))
    num = Counter(found.values())
    # Different texts may be the same on one line.
    return {
        cell_id: label if cell_id in known or num[label] == 1 else f"{label}-{cell_id[:ID_LENGTH]}"
        for cell_id, label in found.items()
    }


def _differences(group: Mapping[str, Cell]) -> dict[str, list[str]]:
    if len(group) == 1:
        return dict.fromkeys(group, [])
    flat = {cell_id: _flat(cell.settings()) for cell_id, cell in group.items()}
    names = dict.fromkeys(name for settings in flat.values() for name in settings)
    varied = [name for name in names if len({settings.get(name) for settings in flat.values()}) > 1]
    return {cell_id: [each[name] for name in varied if name in each] for cell_id, each in flat.items()}


def _flat(settings: Mapping[str, Any], path: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{path}{name}.")
        else:
            # data.name is the only name in which cells of one label differ.
            flat[path + name] = argument_text("data" if path + name == "data.name" else name, value)
    return flat
