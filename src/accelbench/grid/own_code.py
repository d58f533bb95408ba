"""The user's own code that cells name: its files, their digest, and whether it has what is named.

It reads the text alone: nothing is imported, and no lock is needed.
"""

import ast
import hashlib
import re
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache
from importlib.abc import SourceLoader
from importlib.machinery import PathFinder
from pathlib import Path

from accelbench.devices.interpreters import look, own_folders
from accelbench.devices.packages import COMPUTING
from accelbench.errors import UserError
from accelbench.schema.cell import Cell
from accelbench.schema.serialize import read_bytes

# A module whose text has one of these may define, or import, other names than it has in it.
DYNAMIC = re.compile(r"import\s*\(?\s*\*|__getattr__|globals|locals|vars|exec|eval|setattr|__dict__|__path__|modules")
# Modules whose version in the cell's interpreter is in the identity.
VERSIONED = {*sys.stdlib_module_names, *COMPUTING, *(name.replace("-", "_") for name in COMPUTING)}


@cache  # also by the working folder: of a worktree, the same path is other code
def source_digest(flag: str, path: str, folder: Path) -> str:
    """The sha256 over names and contents of `source_files`, from the working folder `folder`.

    Raises as it does, also if a file there can't be read.
    """
    total = hashlib.sha256()
    try:
        for name, file in sorted(source_files(flag, path).items()):
            total.update(f"{name.as_posix()} {hashlib.sha256(read_bytes(file)).hexdigest()}\n".encode())
    except OSError as error:
        raise UserError(f"{flag}={path}: {error.filename}: {error.strerror}") from error
    return total.hexdigest()


def source_files(flag: str, path: str, places: Sequence[str] | None = None) -> dict[Path, Path]:
    """Name -> file of the source of the user's class or function at a dotted path: the top-level package that holds it.

    If that is a single module, the other modules of its folder count too. It is searched in `places`, by
    default the current folder, then Python's path.

    Raises UserError: there is no such package; the message names the setting `flag`.
    """
    name = path.partition(".")[0]
    found = PathFinder.find_spec(name, ["", *sys.path] if places is None else places)
    if found is None or not (found.submodule_search_locations or found.origin):
        raise UserError(f"{flag}={path}: no package or module {name} in this folder or where Python looks")
    folders = found.submodule_search_locations or [str(Path(str(found.origin)).parent)]
    pattern = "**/*.py" if found.submodule_search_locations else "*.py"
    files = {file.relative_to(folder): file for folder in map(Path, folders) for file in folder.glob(pattern)}
    # Editors leave links to nothing, such as `.#nets.py`; nobody can import a pipe.
    return {name: file for name, file in files.items() if file.is_file()}


def check_own_code(cells: Iterable[Cell]) -> None:
    """Raises a UserError if code that `cells` name is missing, or no Python, or if `python` would run another copy."""
    for flag, path, python in {(*source, cell.python) for cell in cells for source in cell.own_code.items()}:
        files, name = source_files(flag, path), path.partition(".")[0]
        _check_text(flag, path)
        with suppress(UserError):  # not there
            # The identity has the digest of the copy here, so that the other interpreter must run the same one.
            if python is None or name in VERSIONED:
                continue
            found = PathFinder.find_spec(name, own_folders())  # of a folder without __init__.py, any package is before
            is_first = found is not None and (found.origin or not look(python, name).modules.get(name))
            if is_first and source_files(flag, path, own_folders()) == files:
                continue
        raise UserError(
            f"{flag}={path}: python={python} would run its own copy of {name}, if any: its source must be "
            "in the working folder or one of PYTHONPATH that is no site-packages; a folder of code needs an __init__.py"
        )


def _check_text(flag: str, path: str) -> None:
    """Raises a UserError if the module's text is no Python, or surely has no such name."""
    module, places = None, ["", *sys.path]
    for name in path.split("."):
        if (found := PathFinder.find_spec(name, places)) is None:
            break
        module, places = found, list(found.submodule_search_locations or [])
    if found or not module or not isinstance(module.loader, SourceLoader):
        return  # the check of its network says the rest
    try:
        ast.parse(text := module.loader.get_source(module.name) or "", Path(str(module.origin)).name)
    except (SyntaxError, ValueError) as error:
        raise UserError(f"{flag}={path}: can't be imported ({error})") from error
    if name not in re.findall(r"\w+", text) and not DYNAMIC.search(text):
        raise UserError(f"{flag}={path}: the module {module.name} has no {name}")
