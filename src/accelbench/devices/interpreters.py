"""Finds and examines the Python interpreter that the setting `python` names.

A cell with this setting runs in the named interpreter, not in the one that runs accelbench. The named interpreter then
also imports accelbench and the user's modules.
"""

import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from pathlib import Path

from accelbench.devices.packages import COMPUTING, DISTRIBUTIONS, INSTALLED
from accelbench.errors import UserError

PYTHONS = ((3, 11), (3, 14))  # accelbench runs from the first release to below the second; see pyproject.toml
TORCH = (2, 9)  # first release whose settings accelbench can read back; see pyproject.toml
ASKED_S = 60.0  # seconds to wait for an answer: a first start from a slow disk is slow
SUPPORTED = "Python 3.11 to 3.13 and torch 2.9 or newer"
# Arguments: a search path, names of distributions, `--`, names of modules. The script prints the installed ones. Python
# 3.8 can run it.
SCRIPT = """
import json, os, platform, sys
from importlib import metadata, util
home, at, versions = os.path.dirname(os.__file__), sys.argv.index("--"), {}
library = [path for path in sys.path if path.startswith(home) and "-packages" not in path]
sys.path[:0] = sys.argv[1].split(os.pathsep)
for name in sys.argv[2:at]:
    try:
        versions[name] = metadata.version(name)
    except metadata.PackageNotFoundError:
        pass
found = [(name, util.find_spec(name)) for name in sys.argv[at + 1:]]
modules = {name: os.path.dirname(spec.origin or "") for name, spec in found if spec}
print("\\n" + json.dumps([platform.python_version(), versions, modules, library]))
"""


@dataclass(frozen=True)
class Interpreter:
    """The answers of an interpreter."""

    version: str
    versions: Mapping[str, str]  # distribution of `COMPUTING` -> its version, if it has it
    modules: Mapping[str, str]  # requested module -> its folder, if it has it; empty without an __init__.py
    library: Sequence[str] = ()  # folders of its standard library


def other(python: str) -> str | None:
    """Returns the setting `python` as an absolute path. Returns None if it names accelbench's own environment.

    If `python` is an environment's interpreter, returns the environment's folder. Raises the errors of `executable`.
    """
    # Links stay: an environment's interpreter is a link.
    path = Path(os.path.abspath(os.path.expanduser(python)))
    file = executable(path)
    if file == str(path) and (path.parent.parent / "pyvenv.cfg").is_file():
        path = path.parent.parent
    is_own = file == os.path.abspath(sys.executable) or path.resolve() == Path(sys.prefix).resolve()
    return None if is_own else str(path)


def executable(python: str | Path) -> str:
    """Returns the interpreter's path. Raises UserError if `python` is neither a file nor an environment's folder."""
    path = Path(python)
    file = next((file for file in (path, path / "bin/python", path / "bin/python3") if file.is_file()), None)
    if file is None:
        what = "no interpreter in its bin/" if path.is_dir() else "no such file or folder"
        raise UserError(f"python={python}: {what}: name an interpreter, or the folder of its environment")
    return str(file)


def own_folders() -> list[str]:
    """Returns folders with the user's modules: the working folder, and folders of PYTHONPATH."""
    # In sys.path, PYTHONPATH comes before the standard library. Later folders, such as those of editable packages,
    # belong to accelbench's environment.
    library = Path(sysconfig.get_path("stdlib"))
    before = takewhile(lambda folder: not Path(folder).is_relative_to(library), sys.path)
    paths = [Path.cwd(), *map(Path, before)]
    # If a command started this process, the import path begins with the command's folder, which is the interpreter's.
    folders = [path for path in paths if path.is_dir() and not INSTALLED.intersection(path.parts)]
    return [str(path) for path in dict.fromkeys(folders) if path != Path(sys.executable).parent]


def own_variables() -> dict[str, str]:
    """Returns environment variables for another process of this process's interpreter.

    The other process then imports from the same folders as this process.
    """
    home = os.path.dirname(os.__file__)
    library = [
        path for path in sys.path if path.startswith(home) and not INSTALLED.intersection(Path(path).parts)
    ]
    path = dict.fromkeys([*library, os.getcwd(), *filter(None, sys.path)])
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path)}


def variables(file: str, *folders: str) -> dict[str, str]:
    """Returns environment variables for a process of the interpreter `file`.

    The variables activate the interpreter's environment. The process also imports modules from `folders`.
    """
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONHOME", "VIRTUAL_ENV")}
    path = [os.path.dirname(file), os.environ.get("PATH", os.defpath)]
    return {**kept, "PATH": os.pathsep.join(path), "PYTHONPATH": os.pathsep.join([*folders, *own_folders()])}


@cache
def look(python: str, *modules: str) -> Interpreter:
    """Asks an interpreter for its version, the versions of its packages, and the folders of `modules`.

    Raises UserError if the file is missing or is not a Python interpreter.
    """
    file = executable(python)
    words = [file, "-c", SCRIPT, os.pathsep.join(own_folders()), *COMPUTING, "--", *DISTRIBUTIONS, *modules]
    environment = {**variables(file), "PYTHONPATH": ""}  # a module of the user must not replace one of Python
    try:
        done = subprocess.run(
            words,
            capture_output=True,
            timeout=ASKED_S,
            env=environment,
            errors="replace",
            cwd=os.path.dirname(file),
        )
        return Interpreter(*json.loads(done.stdout.splitlines()[-1]))  # Python's start may print other lines
    except (OSError, subprocess.TimeoutExpired, ValueError, TypeError, IndexError) as error:
        problem = getattr(error, "strerror", None) or "it does not run Python code"
        raise UserError(f"python={python}: not a Python interpreter ({problem})") from error
