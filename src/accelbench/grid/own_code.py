"""Finds the files of the user's code that cells use, and computes the digest of these files.

This module reads the code as text, and does not run it. Therefore it does not disturb a measurement that runs.
"""

import ast
import hashlib
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path

from accelbench.devices.interpreters import look, own_folders
from accelbench.devices.packages import COMPUTING, INSTALLED
from accelbench.errors import UserError, asking
from accelbench.schema.cell import Cell
from accelbench.schema.serialize import read_bytes

# A module whose text matches may import modules that its text does not name.
HIDES = re.compile(rb"import_module|__import__|import_from_string|spec_from|runpy|pkgutil|[lL]azy_?(Module|loader)")
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
            total.update(f"{name.as_posix()} {hashlib.sha256(read_bytes(file)).hexdigest()}\n".encode())
    except OSError as error:
        raise UserError(f"{flag}={path}: {error.filename}: {error.strerror}") from error
    return total.hexdigest()


def source_files(flag: str, path: str) -> dict[Path, Path]:
    """Returns the source files, by name, of the user's class or function at the dotted path `path`.

    The files are the module of the class or function, and all modules that it imports, directly or indirectly. Modules
    of installed packages are left out. But if `path` itself is in an installed package, all files of it are returned.

    A module's text may not show all its imports. In this case, all files of its package are returned. If it is in no
    package, all modules in its folder are returned. The current folder is searched before Python's path.

    Raises UserError if there is no such package or module. The message names the setting `flag`.
    """
    name = path.partition(".")[0]
    spec = PathFinder.find_spec(name, ["", *sys.path])
    if spec is None or not (spec.submodule_search_locations or spec.origin):
        raise UserError(f"{flag}={path}: there is no package or module {name} in this folder or on Python's path")
    folders = [Path(folder) for folder in spec.submodule_search_locations or []]
    home = folders[0].parent if folders else Path(str(spec.origin)).parent
    if len(folders) < 2 and not INSTALLED.intersection(home.parts):
        homes = list(dict.fromkeys([home.absolute(), *map(Path, own_folders())]))
        if imported := _imported(path, homes):
            return imported
    files: dict[Path, Path] = {}
    for folder in folders or [home]:
        files |= {file.relative_to(folder): file for file in folder.glob("**/*.py" if folders else "*.py")}
    # Editors leave broken links in the folder, such as `.#nets.py`.
    return {name: file for name, file in files.items() if file.is_file()}


def _imported(path: str, homes: Sequence[Path]) -> dict[Path, Path]:
    """Returns the files of the module at `path`, and of all modules that it imports from the folders in `homes`.

    Returns an empty mapping if a module can't be read or parsed, or if its text may not show all its imports (`HIDES`).
    """
    files: dict[Path, Path] = {}
    todo = [path]
    while todo:
        for name, file in _files_of(todo.pop(), homes):
            if name in files:
                continue
            files[name] = file
            try:
                text = read_bytes(file)
                if HIDES.search(text):
                    return {}
                todo += _names_in(text, name.parent.parts)
            except (OSError, SyntaxError, ValueError):
                return {}
    return files


def _files_of(path: str, homes: Iterable[Path]) -> Iterator[tuple[Path, Path]]:
    """Yields (name, file) for every package in a dotted path, and then for the module."""
    place = Path()
    for part in path.split("."):
        place /= part
        for name in (place / "__init__.py", place.with_suffix(".py")):
            home = next((home for home in homes if (home / name).is_file()), None)
            if home is not None:
                yield name, home / name
                break


@cache
def _names_in(text: bytes, package: tuple[str, ...]) -> list[str]:
    """Returns the dotted paths that a module imports, except the standard library. `package` is its package."""
    names = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else ()
            module = ".".join([*above, *filter(None, [node.module])])
            names += [f"{module}.{alias.name}".lstrip(".") for alias in node.names]
    return [name for name in names if name.partition(".")[0] not in sys.stdlib_module_names]


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
    """Raises UserError if the last name of a dotted path does not occur in the text of its module.

    The error is not raised if the module may define names that its text does not contain, as with `import *`.
    """
    module, _, name = path.rpartition(".")
    place = module.replace(".", "/")
    files = [Path(home, place + end) for home in ["", *sys.path] for end in ("/__init__.py", ".py")]
    file = next(filter(Path.is_file, files), None)
    text = file.read_text(errors="replace") if file else name
    if not re.search(rf"\b{name}\b|import \*|__getattr__|globals|setattr|exec|vars\(|sys\.modules", text):
        names = re.findall(r"^(?:class|def) (\w+)", text, re.MULTILINE)
        raise UserError(f"{flag}={path}: {module} has no {name}.{asking(get_close_matches(name, names, 1))}")


def _is_same_copy(name: str, python: str) -> bool:
    here, there = (PathFinder.find_spec(name, paths) for paths in (["", *sys.path], own_folders()))
    if here is None or there is None or here.origin != there.origin:
        return False
    # Python prefers any package of this name to a folder without __init__.py.
    return there.origin is not None or not look(python, name).modules.get(name)
