"""Finds the files of the user's code that cells name, and computes their digest.

This module reads the code only as text and does not import it. So it needs no lock.
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
    """The sha256 of the names and contents of `source_files` in the working folder `folder`.

    Raises UserError: `source_files` raises it, or a file can't be read.
    """
    total = hashlib.sha256()
    try:
        for name, file in sorted(source_files(flag, path).items()):
            total.update(f"{name.as_posix()} {hashlib.sha256(read_bytes(file)).hexdigest()}\n".encode())
    except OSError as error:
        raise UserError(f"{flag}={path}: {error.filename}: {error.strerror}") from error
    return total.hexdigest()


def source_files(flag: str, path: str) -> dict[Path, Path]:
    """Name -> source file, for the user's class or function at a dotted path.

    The files are the module of the class or function, and all modules that this module imports. Installed packages do
    not count. But if `path` itself names an installed package, all files of this package count.

    A module may import modules that its text does not name. Then all files of the package count, or, if the module is
    in no package, all modules of its folder. The current folder is searched before Python's path.

    Raises UserError: there is no such package. The message names the setting `flag`.
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
    """The files of the module at `path` and of all modules that it imports from `homes`.

    Empty if the text of a module does not show all of its imports.
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
    """Yields the name and the file of each package in a dotted path, then of the module."""
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
    """The dotted paths that a module's text imports, except Python's own modules. `package`: names of its packages."""
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
    """Raises UserError if the user's code is missing, or if the interpreter `python` would run another copy of it."""
    for flag, path, python in {(*source, cell.python) for cell in cells for source in cell.own_code.items()}:
        source_files(flag, path)  # raises if the code is missing
        _check_name(flag, path)
        name = path.partition(".")[0]
        # The identity has the digest of the copy here, so the other interpreter must run the same copy.
        if python is not None and name not in VERSIONED and not _is_same_copy(name, python):
            raise UserError(
                f"{flag}={path}: python={python} would not run the same {name}: put its source into the working "
                "folder, or into a folder of PYTHONPATH that is no site-packages. A folder of code needs an __init__.py"
            )


def _check_name(flag: str, path: str) -> None:
    """Raises UserError if the module of a dotted path surely does not contain the last name of the path."""
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
