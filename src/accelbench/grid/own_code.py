"""The user's own code that cells name: its files, their digest, and whether it has what is named.

It reads the text alone: nothing is imported, and no lock is needed. Only what is surely missing is refused: a module
may define names in ways that its text does not show.
"""

import ast
import difflib
import hashlib
import re
import sys
import warnings
from collections.abc import Iterable
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

from accelbench.errors import RefusedError, UserError
from accelbench.schema.cell import Cell
from accelbench.schema.serialize import read_bytes

# A module whose text has one of these may define, or import, other names than it has in it.
DYNAMIC = {"__getattr__", "globals", "locals", "vars", "exec", "eval", "setattr", "__dict__", "__path__", "modules"}
IMPORTS_ALL = re.compile(r"\bimport\s*\(?\s*\*")


@cache
def source_digest(flag: str, path: str) -> str:
    """The sha256 over names and contents of `source_files`. Raises as it does, also if a file there can't be read."""
    total = hashlib.sha256()
    try:
        for name, file in sorted(source_files(flag, path).items()):
            total.update(f"{name.as_posix()} {hashlib.sha256(read_bytes(file)).hexdigest()}\n".encode())
    except OSError as error:
        raise UserError(f"{flag}={path}: {error.filename}: {error.strerror}") from error
    return total.hexdigest()


def source_files(flag: str, path: str) -> dict[Path, Path]:
    """Name -> file of the source of the user's class or function at a dotted path: the top-level package that holds it.

    If that is a single module, the other modules of its folder count too. It is searched in the current folder, then
    on Python's path.

    Raises UserError: there is no such package; the message names the setting `flag`.
    """
    name = path.partition(".")[0]
    found = PathFinder.find_spec(name, ["", *sys.path])
    folders = list(found.submodule_search_locations or []) if found else []
    if found is None or not (folders or found.origin):
        raise UserError(f"{flag}={path}: no package or module {name} in this folder or where Python looks")
    if folders:
        files = {file.relative_to(folder): file for folder in map(Path, folders) for file in folder.rglob("*.py")}
    else:
        parent = Path(str(found.origin)).parent
        files = {file.relative_to(parent): file for file in parent.glob("*.py")}
    # Editors leave links to nothing, such as `.#nets.py`; nobody can import a pipe.
    return {name: file for name, file in files.items() if file.is_file()}


def check_own_code(cells: Iterable[Cell]) -> None:
    """Checks the dotted paths of the user's code that `cells` name.

    Raises UserError: a module is missing or is no Python, or has no class or function of that name.
    """
    for flag, path in {source for cell in cells for source in cell.own_code.items()}:
        source_files(flag, path)  # of the package
        _check(flag, path)


def _check(flag: str, path: str) -> None:
    *parts, name = path.split(".")
    spec: ModuleSpec | None = None
    places: list[str] | None = ["", *sys.path]
    for num, part in enumerate(parts, 1):
        # By its last part alone: of a dotted name, the package would have to be imported.
        found = None if places is None else PathFinder.find_spec(part, places)
        if found is None:
            if spec and not _may_have(flag, path, spec, part):
                raise UserError(f"{flag}={path}: no module {'.'.join(parts[:num])}")
            return
        spec, places = found, found.submodule_search_locations and list(found.submodule_search_locations)
    if spec and not _may_have(flag, path, spec, name):
        near = difflib.get_close_matches(name, _definitions(spec))
        hint = f". Near it: {', '.join(near)}" if near else ""
        raise UserError(f"{flag}={path}: {_shown(spec)} has no {name}{hint}")


def _may_have(flag: str, path: str, spec: ModuleSpec, name: str) -> bool:
    """Whether the module's text has the word `name`, or does not tell which names it defines."""
    if (text := _text(spec)) is None:
        return True
    try:
        _parsed(text)
    except (SyntaxError, ValueError) as error:
        raise UserError(f"{flag}={path}: can't be imported ({_shown(spec)}: {error})") from error
    except (MemoryError, RecursionError):
        return True
    words = set(re.findall(r"\w+", text))
    return name in words or bool(words & DYNAMIC) or IMPORTS_ALL.search(text) is not None


def _text(spec: ModuleSpec) -> str | None:
    if spec.origin is None or not spec.origin.endswith(".py"):
        return None
    try:
        return read_bytes(Path(spec.origin)).decode()
    except (OSError, RefusedError, UnicodeDecodeError):  # it may name another encoding
        return None


def _parsed(text: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the import shows them
        return ast.parse(text)


def _definitions(spec: ModuleSpec) -> list[str]:
    kinds = (ast.ClassDef, ast.FunctionDef)
    return [each.name for each in _parsed(_text(spec) or "").body if isinstance(each, kinds)]


def _shown(spec: ModuleSpec) -> str:
    return Path(spec.origin).name if spec.origin else spec.name
