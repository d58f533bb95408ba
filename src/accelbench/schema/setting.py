"""Declares settings. A setting is a field of a dataclass. It has a type, a default, and texts for people.

Many parts of accelbench read these declarations: the check of ranges, `accelbench run --help`, the shell's completion,
docs/settings.md, docs/columns.md, cells.csv, and MLflow's parameters.
"""

import dataclasses
from collections.abc import Iterator
from dataclasses import MISSING, dataclass
from functools import cached_property
from typing import Any, get_args, get_type_hints

HELP = "help"  # the key of a setting's meaning in the metadata of a field


def setting(
    default: Any = MISSING, help: str = "", *, factory: Any = MISSING, column: bool | str = False
) -> Any:
    """Declares a field of a dataclass that is a setting. `help` is its meaning.

    If `column`, the setting is a column of cells.csv and a parameter in MLflow. A text is the name of that column.
    """
    metadata = {HELP: help, "column": column}
    return dataclasses.field(default=default, default_factory=factory, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class Declared:
    """A setting and its place in a dataclass."""

    path: str  # dotted name, from the dataclass that was searched
    kind: Any  # type, with the range of values
    field: "dataclasses.Field[Any]"  # field with the default

    @cached_property
    def column(self) -> str:
        """The name of the setting's column. Empty if the setting is no column."""
        column = self.field.metadata["column"]
        return self.field.name if column is True else column or ""

    def value(self, whole: Any) -> Any:
        """Returns the setting's value in `whole`, such as a cell. Returns None if the setting's section is None."""
        for name in self.path.split("."):
            whole = None if whole is None else getattr(whole, name)
        return whole


def declared(kind: Any, prefix: str = "") -> Iterator[Declared]:
    """Yields the settings of a dataclass and of the dataclasses in its fields, in the order of their declaration."""
    hints = get_type_hints(kind, include_extras=True)
    for field in dataclasses.fields(kind):
        kinds = (hints[field.name], *get_args(hints[field.name]))
        inner = [inner_kind for inner_kind in kinds if dataclasses.is_dataclass(inner_kind)]
        if HELP in field.metadata:
            yield Declared(path=prefix + field.name, kind=hints[field.name], field=field)
        elif inner:
            yield from declared(inner[0], f"{prefix}{field.name}.")
