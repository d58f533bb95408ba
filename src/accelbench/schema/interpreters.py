"""Names the Python environments that cells run in (`Cell.python`)."""

from collections.abc import Sequence
from pathlib import PurePath

USUAL = (".venv", "venv", ".env", "env")  # usual names of an environment's folder; the folder above has the better name
OWN = "accelbench's own"


def folder_name(python: str) -> str:
    """Shortens the path of an environment or of an interpreter to a name, such as `/home/me/new/.venv` to `new`."""
    path = PurePath(python)
    return (path.parent if path.name in USUAL else path).name or python


def names(pythons: Sequence[str | None]) -> list[str]:
    """Returns a name for each of `pythons`, the settings `python` of some cells. If all are equal, names are empty."""
    if len(set(pythons)) < 2:
        return [""] * len(pythons)
    return [folder_name(python) if python else OWN for python in pythons]
