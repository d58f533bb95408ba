"""Finds the files of the user's code that cells use, and computes the digest of these files.

This module reads the code as text, and does not run it. Therefore it does not disturb a measurement that runs.
"""

import hashlib
import re
import sys
from collections.abc import Iterable
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

from accelbench.devices.interpreters import look, own_folders
from accelbench.devices.packages import COMPUTING, INSTALLED
from accelbench.errors import UserError, did_you_mean
from accelbench.schema.cell import Cell

# Statements also follow `;` or `:` in a line. Relative imports do not match: they are from the same package.
FROM = re.compile(r"(?:^|[;:])[ \t]*from[ \t]+(\w+)", re.MULTILINE)
IMPORT = re.compile(r"(?:^|[;:])[ \t]*import[ \t]+((?:\\\n|[^\n;#])+)", re.MULTILINE)
# A module whose text matches may import modules that its text does not name.
HIDES = re.compile(r"import_module|__import__|import_from_string|spec_from|runpy|pkgutil")
# Names of modules whose version is a part of the identity.
VERSIONED = {*sys.stdlib_module_names, *COMPUTING, *(name.replace("-", "_") for name in COMPUTING)}


@cache  # `folder` is in the cache's key: in a worktree, the same path is other code
def source_digest(flag: str, path: str, folder: Path) -> str:
    """Returns the sha256 of the names and contents of the `source_files`. `folder` is the current folder.

    Raises UserError if the code at `path` is missing or can't be read.
    """
    total = hashlib.sha256()
    try:
        for name, file in sorted(source_files(flag, path).items()):
            total.update(f"{name.as_posix()} {hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    except OSError as error:
        raise UserError(f"{flag}={path}: {error.filename}: {error.strerror}") from error
    return total.hexdigest()


def source_files(flag: str, path: str) -> dict[Path, Path]:
    """Returns the source files, by name, of the user's class or function at the dotted path `path`.

    The files are the first package or module in the path, and all packages and modules that it imports, directly or
    indirectly, from the user's folders. All files of a package are included. If a module may import modules that its
    text does not name, all modules in the folder are included. If `path` is in an installed package, only the files of
    this package are returned. The current folder is searched before Python's path.

    Raises UserError if there is no such package or module. The message names the setting `flag`.
    """
    root = path.partition(".")[0]
    spec = PathFinder.find_spec(root, ["", *sys.path])
    if spec is None or not (spec.submodule_search_locations or spec.origin):
        raise UserError(
            f"{flag}={path}: there is no package or module {root} in this folder or on Python's path"
        )
    files = _files_of(spec)
    home = next((file.parents[len(name.parts) - 1] for name, file in files.items()), Path())
    if INSTALLED.intersection(home.parts):
        return files
    homes = [str(home), *own_folders()]
    known = {root, *sys.stdlib_module_names}
    todo = list(files.values())
    while todo:
        text = todo.pop().read_bytes().decode(errors="replace")
        if HIDES.search(text):
            files |= {Path(file.name): file for file in home.glob("*.py") if file.is_file()}
        for name in _names_in(text) - known:
            known.add(name)
            if (spec := PathFinder.find_spec(name, homes)) is not None:
                further = _files_of(spec)
                files |= further
                todo += further.values()
    return files


def _files_of(spec: ModuleSpec) -> dict[Path, Path]:
    """Returns the file of a module, or all Python files of a package. Names are relative to the folder around it."""
    folders = [Path(folder) for folder in spec.submodule_search_locations or []]
    if not folders:
        file = Path(str(spec.origin))
        return {Path(file.name): file}
    files: dict[Path, Path] = {}
    for folder in folders:
        files |= {file.relative_to(folder.parent): file for file in folder.glob("**/*.py")}
    # Editors leave broken links in the folder, such as `.#nets.py`.
    return {name: file for name, file in files.items() if file.is_file()}


def _names_in(text: str) -> set[str]:
    """Returns the first names in the dotted paths that a module imports, such as `helpers` of helpers.deep.tools."""
    names = FROM.findall(text)
    for line in IMPORT.findall(text):
        names += re.findall(r"(?:^|,)[\s\\]*(\w+)", line)
    return set(names)


def check_own_code(cells: Iterable[Cell]) -> None:
    """Raises UserError if the user's code is missing, or if a cell's interpreter would not run this copy of it."""
    for flag, path, python in {(*source, cell.python) for cell in cells for source in cell.own_code.items()}:
        source_files(flag, path)  # raises if the code is missing
        _check_name(flag, path)
        name = path.partition(".")[0]
        # The identity has the digest of the copy here, so the other interpreter must run the same copy.
        if python is not None and name not in VERSIONED and not _is_same_copy(name, python):
            raise UserError(
                f"{flag}={path}: python={python} does not find this copy of {name}: put its source into the working "
                f"folder, or into a folder of PYTHONPATH other than site-packages. If {name} is a folder, add an "
                "__init__.py"
            )


def _check_name(flag: str, path: str) -> None:
    """Raises UserError if a dotted path names no module, or if its last name does not occur in the module's text.

    The error is not raised if the module may define names that its text does not contain, as with `import *`.
    """
    module, _, name = path.rpartition(".")
    spec = None
    places = ["", *sys.path]
    for part in module.split("."):
        spec = PathFinder.find_spec(part, places)
        places = list(spec.submodule_search_locations or ()) if spec else []
    if spec is None:
        raise UserError(f"{flag}={path}: there is no module {module}")
    text = Path(spec.origin).read_text(errors="replace") if spec.origin else ""
    if not re.search(rf"\b{name}\b|import \*|__getattr__|globals|setattr|exec|vars\(|sys\.modules", text):
        names = re.findall(r"^(?:class|def) (\w+)", text, re.MULTILINE)
        raise UserError(f"{flag}={path}: {module} has no {name}.{did_you_mean(name, names)}")


def _is_same_copy(name: str, python: str) -> bool:
    here, there = (PathFinder.find_spec(name, paths) for paths in (["", *sys.path], own_folders()))
    if here is None or there is None or here.origin != there.origin:
        return False
    # Python prefers any package of this name to a folder without __init__.py.
    return there.origin is not None or not look(python, name).modules.get(name)
