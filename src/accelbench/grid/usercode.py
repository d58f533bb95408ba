"""The user's own network, seen from outside: its source is part of what a number depends on."""

import sys
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path

from accelbench.errors import UserError
from accelbench.grid.fingerprint import files_digest


@cache
def source_digest(target: str) -> str:
    """The sha256 over the source of the top-level package that holds `target`; nothing is imported.

    Where that is a single module, those in its folder count too.

    Looked for in the current folder, then where Python looks. Computed once per process.

    Args:
        target: the dotted path of a class.

    Raises:
        UserError: there is no such package.
    """
    name = target.partition(".")[0]
    found = PathFinder.find_spec(name, ["", *sys.path])
    folders = list(found.submodule_search_locations or []) if found else []
    if found is None or not (folders or found.origin):
        raise UserError(f"model.target={target}: no package or module {name} in this folder or where Python looks")
    if folders:
        paths = {path.relative_to(folder): path for folder in map(Path, folders) for path in folder.rglob("*.py")}
    else:  # a single module may use those beside it
        beside = Path(str(found.origin)).parent
        paths = {path.relative_to(beside): path for path in beside.glob("*.py")}
    return files_digest(sorted(paths.items()))
