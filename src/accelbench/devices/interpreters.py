"""Other interpreters that cells may run in (`python=`), which find accelbench alone, and the user's folders."""

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

PYTHONS = ((3, 11), (3, 14))  # accelbench's code runs on the first and up to below the second, as pyproject.toml says
TORCH = (2, 9)  # the first release whose settings accelbench reads back, as pyproject.toml says
ASKED_S = 60.0  # for an answer: the first start from a slow disk takes seconds
# Of the names of distributions, and after `--` of modules, it says which there are. Python 3.8 can run it.
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
    """What an interpreter said of itself."""

    version: str
    versions: Mapping[str, str]  # of the distributions in `COMPUTING` that it has
    modules: Mapping[str, str]  # those asked for that it has, and their folders; empty for one without __init__.py
    library: Sequence[str] = ()  # the folders of its standard library


def other(python: str) -> str | None:
    """The setting `python` as an absolute path, of an environment its folder; None for our own. Raises UserError."""
    path = Path(os.path.abspath(os.path.expanduser(python)))  # not resolved: an environment's is a link to another one
    file = executable(path)
    if file == str(path) and (path.parent.parent / "pyvenv.cfg").is_file():
        path = path.parent.parent
    is_own = file == os.path.abspath(sys.executable) or path.resolve() == Path(sys.prefix).resolve()
    return None if is_own else str(path)


def executable(python: str | Path) -> str:
    """The path of the file that is run. Raises UserError: there is no such file or folder, or no file in it."""
    path = Path(python)
    found = next((file for file in (path, path / "bin/python", path / "bin/python3") if file.is_file()), None)
    if found is None:
        what = "no interpreter in its bin/" if path.is_dir() else "no such file or folder"
        raise UserError(f"python={python}: {what}: name an interpreter, or the folder of its environment")
    return str(found)


def own_folders() -> list[str]:
    """The user's own folders of modules: the working folder and those before the standard library, as of PYTHONPATH."""
    # What is behind it, such as packages that are installed to be edited, is of accelbench's environment alone.
    library = Path(sysconfig.get_path("stdlib"))
    paths = [Path.cwd(), *map(Path, takewhile(lambda each: not Path(each).is_relative_to(library), sys.path))]
    own = [path for path in paths if path.is_dir() and not INSTALLED.intersection(path.parts)]
    return [str(path) for path in dict.fromkeys(own) if path != Path(sys.executable).parent]  # of a script's file


def own_variables() -> dict[str, str]:
    """Those of a process of our own interpreter: it finds modules in Python's library, the working folder, our path."""
    home = os.path.dirname(os.__file__)
    library = [path for path in sys.path if path.startswith(home) and not INSTALLED.intersection(Path(path).parts)]
    path = dict.fromkeys([*library, os.getcwd(), *filter(None, sys.path)])
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path)}


def variables(file: str, *folders: str) -> dict[str, str]:
    """Those of a process of `file`, whose environment is active; it finds modules in `folders` and the user's too."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONHOME", "VIRTUAL_ENV")}
    path = [os.path.dirname(file), os.environ.get("PATH", os.defpath)]
    return {**kept, "PATH": os.pathsep.join(path), "PYTHONPATH": os.pathsep.join([*folders, *own_folders()])}


@cache
def look(python: str, *modules: str) -> Interpreter:
    """Asks the interpreter what it has, of `modules` too, once. Raises UserError: it is not there, or no Python."""
    file = executable(python)
    done = None
    words = [file, "-c", SCRIPT, os.pathsep.join(own_folders()), *COMPUTING, "--", *DISTRIBUTIONS, *modules]
    environment = {**variables(file), "PYTHONPATH": ""}  # nothing of the user's is imported for Python's own
    try:
        done = subprocess.run(
            words, capture_output=True, timeout=ASKED_S, env=environment, errors="replace", cwd=os.path.dirname(file)
        )
        return Interpreter(*json.loads(done.stdout.splitlines()[-1]))  # its start may print something before
    except (OSError, subprocess.TimeoutExpired) as error:
        problem = getattr(error, "strerror", None) or f"no answer within {ASKED_S:g} s"
    except (ValueError, TypeError, IndexError):
        problem = (done.stderr.strip() if done else "").rpartition("\n")[2] or "it does not run Python code"
    raise UserError(f"python={python}: not a Python interpreter ({problem})")
