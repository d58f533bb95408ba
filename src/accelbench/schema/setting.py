"""The declaration of a setting: a dataclass's field with its type and default, and all that is said of it elsewhere.

From this one place come the limits of its values (the range of its type), `accelbench run --help`, docs/settings.md,
the shell's completion, its column of cells.csv with the line in docs/columns.md, and its parameter in MLflow.
"""

import dataclasses
from collections.abc import Iterator
from dataclasses import MISSING, dataclass
from functools import cached_property
from typing import Any, get_args, get_type_hints

KEY = "setting"  # of a field's metadata


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What is said of a setting besides its type and default."""

    help: str  # what it means
    # whether cells.csv has it as a column, and MLflow as a parameter; a text: by this name, and not the field's
    column: bool | str = False
    empty: str = ""  # when the column has no value; "" for never


def setting(default: Any = MISSING, help: str = "", *, factory: Any = MISSING, **said: Any) -> Any:
    """A dataclass's field that is a setting; `said` is as in `Setting`."""
    metadata = {KEY: Setting(help=help, **said)}
    return dataclasses.field(default=default, default_factory=factory, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class Declared:
    """A setting in its place."""

    path: str  # its dotted name, from the class that was asked for
    kind: Any  # its type, with its range
    field: "dataclasses.Field[Any]"  # its default, and what is said of it

    @property
    def said(self) -> Setting:
        said: Setting = self.field.metadata[KEY]
        return said

    @cached_property
    def column(self) -> str:
        return self.said.column if isinstance(self.said.column, str) else self.field.name

    def value(self, whole: Any) -> Any:
        """Its value in an instance of the class; None if the group of settings that it belongs to is None there."""
        for name in self.path.split("."):
            whole = None if whole is None else getattr(whole, name)
        return whole


def declared(kind: Any, prefix: str = "") -> Iterator[Declared]:
    """Yields the settings of a dataclass and of those in its fields, in the order of their declaration."""
    hints = get_type_hints(kind, include_extras=True)
    for field in dataclasses.fields(kind):
        inner = [each for each in (hints[field.name], *get_args(hints[field.name])) if dataclasses.is_dataclass(each)]
        if KEY in field.metadata:
            yield Declared(path=prefix + field.name, kind=hints[field.name], field=field)
        elif inner:
            yield from declared(inner[0], f"{prefix}{field.name}.")
