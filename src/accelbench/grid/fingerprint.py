"""Computes the fingerprint of a machine, and the identity of a record.

The identity is the digest of everything that the record's numbers depend on. The fingerprint contains the digest of the
measuring code: the files in `ROOMS` and the engine's files. After any edit of these files, cells are measured again.
"""

import os
import platform
import re
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pynvml

from accelbench.devices import allocators, cpu, interpreters, packages, tpu
from accelbench.devices.gpu import visible_gpus
from accelbench.engines.registry import SUBSTITUTING
from accelbench.errors import UserError
from accelbench.grid.own_code import source_digest
from accelbench.project import PACKAGE
from accelbench.schema.cell import EXPORTING, Cell, Engine
from accelbench.schema.measurement import Data
from accelbench.schema.secrets import kept
from accelbench.schema.serialize import digest, sha256_of

GIT_S = 10.0  # time limit of git, which may wait forever for a hook or a remote file system

DRIVER = "nvidia-driver"


def fingerprint(engine: Engine | None = None) -> dict[str, Any]:
    """Returns the fingerprint of this machine, as plain JSON values. Records with equal fingerprints are comparable.

    The entry `machine` describes the hardware, and `versions` the libraries that compute. `variables` contains the
    environment variables that tune these libraries (`schema.secrets.kept`). `code` is the `code_digest` of `engine`. If
    `engine` is None, it is the digest of all engines. The fingerprint contains only the major and the minor number of
    the kernel's version. It does not depend on load, time or host name.
    """
    try:
        gpus = visible_gpus()
    except pynvml.NVMLError:
        gpus = []
    report = cpu.look()
    details = [
        {
            "memory_gb": None if gpu.memory_bytes is None else round(gpu.memory_bytes / 1e9),
            "multiprocessors": gpu.multiprocessors,
            "compute_capability": ".".join(map(str, gpu.compute_capability))
            if gpu.compute_capability
            else None,
        }
        for gpu in gpus
    ]
    kernel = ".".join(platform.release().split(".")[:2])
    machine = {
        "cpu_name": report.name,
        "instruction_sets": report.details.get("instruction_sets", ""),
        "num_cores": int(report.details["physical_cores"]) if "physical_cores" in report.details else None,
        "num_threads": int(report.details["usable_cores"]),
        "memory_gb": round((report.memory_bytes or 0) / 1e9),
        "gpus": [gpu.name for gpu in gpus],
        **({"gpu_details": details} if gpus else {}),
        "tpus": tpu.find_chips(),
        "platform": f"{platform.system()} {kernel} {platform.machine()}",
        "python": platform.python_version(),
    }
    versions = {
        name: version for name in packages.COMPUTING if (version := packages.version(name)) is not None
    }
    if gpus:
        versions[DRIVER] = pynvml.nvmlSystemGetDriverVersion()
    # A cell's process does not get the variables in `SUBSTITUTING`.
    variables = {name: value for name, value in kept(os.environ).items() if name not in SUBSTITUTING}
    return {
        "machine": machine,
        "versions": versions,
        "variables": variables,
        "code": code_digest(PACKAGE, engine),
    }


def of_cell(cell: Cell, fingerprint: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fingerprint for a cell. If `cell.python` is set, the versions are those of that interpreter."""
    if cell.python is None:
        return dict(fingerprint)
    interpreter = interpreters.look(cell.python)
    here = fingerprint["versions"]
    versions = {**interpreter.versions, **({DRIVER: here[DRIVER]} if DRIVER in here else {})}
    return {
        **fingerprint,
        "machine": {**fingerprint["machine"], "python": interpreter.version},
        "versions": versions,
    }


# The folders and files whose code may change a measured number. `measuring_files` adds the files directly in engines/,
# and the folder of the cell's engine.
ROOMS = (
    "devices",
    "isolation",
    "measuring",
    "serving",
    "stats",
    "lifeline.py",
    "judging/verdict.py",
    "data/arrays.py",
    "data/order.py",
    "data/pictures.py",
    "schema/cell.py",
    "schema/measurement.py",
    "engines/pytorch/probe.py",  # its results judge the cells of every engine
)
# Engine -> folders of other engines whose code it uses.
BUILT_ON = {Engine.lightning: ("pytorch",), **dict.fromkeys(EXPORTING, ("exported", "pytorch"))}


def code_digest(package: Path, engine: Engine | None = None) -> str:
    """Returns the SHA-256 of the `measuring_files` of `engine`; if it is None, of all engines.

    Raises FileNotFoundError if `package` contains no such files.
    """
    paths = sorted(set(measuring_files(package, engine)))
    if not paths:
        raise FileNotFoundError(f"{package}: not the folder of the accelbench package")
    return digest({str(path.relative_to(package)): sha256_of(path) for path in paths})


def measuring_files(package: Path, engine: Engine | None = None) -> list[Path]:
    """Returns the files with the code that measures cells of `engine`. If `engine` is None, includes all engines."""
    files = list(package.glob("engines/*.py"))
    engines = ["*"] if engine is None else [engine.value, *BUILT_ON.get(engine, ())]
    for place in (*ROOMS, *(f"engines/{name}" for name in engines)):
        files += package.glob(place if place.endswith(".py") else f"{place}/**/*.py")
    return files


def identity(cell: Cell, data: Data, fingerprint: Mapping[str, Any]) -> str:
    """Returns the identity of a cell's record: the digest of everything that the record's numbers depend on.

    The digest covers the settings, the data set, the allocator, the fingerprint, the versions of libraries in the
    cell's interpreter, and the user's code and weights.

    Raises UserError if the user's code or weights are missing or can't be read.
    """
    environment = {**of_cell(cell, fingerprint), **own_files(cell)}
    return digest({"settings": cell.settings(), "data": data.digest, "environment": environment})


def own_files(cell: Cell) -> dict[str, dict[str, str]]:
    """Returns the entry `files` of an environment. It maps a setting to the digest of the files that the setting names.

    These files are the user's code, the user's weights and the allocator's library. Returns an empty mapping if the
    cell uses no such file. Raises UserError if the user's code or weights are missing or can't be read.
    """
    digests = {flag: source_digest(flag, path, Path.cwd()) for flag, path in cell.own_code.items()}
    if cell.model.weights_file is not None:
        path = Path.cwd() / cell.model.weights_file
        try:
            stat = path.stat()
            digests["model.weights"] = _digest_of(path, stat.st_mtime_ns, stat.st_ino)
        except OSError as error:
            raise UserError(f"model.weights={path}: not readable ({error.strerror})") from error
    if (library := allocators.library(cell.options.allocator)) is not None:
        digests["allocator"] = allocators.checksum(library)
    return {"files": digests} if digests else {}


@cache  # a changed file has another key; reading a large file takes long
def _digest_of(path: Path, modified_ns: int, inode: int) -> str:
    return sha256_of(path)


def git_variables() -> dict[str, str]:
    """Returns this process's environment variables without git's: a git hook sets some for its own repository."""
    return {name: value for name, value in os.environ.items() if not re.match("GIT_(?!CONFIG)", name)}


def git_state(root: Path) -> dict[str, Any]:
    """Returns the state of the git checkout at `root`. The identity of a record does not depend on this state.

    The entries are `revision`, `branch` (None if HEAD is detached) and `dirty` (true if tracked files differ from the
    commit). Returns an empty mapping if `root` is no checkout, or if git does not answer within `GIT_S`.
    """
    # dvc.lock is left out, because DVC writes it while it runs. Untracked files are left out, because the digest of the
    # code covers them.
    command = ["git", "--no-optional-locks", "-C", str(root), "status", "--porcelain=v2", "--branch"]
    command += ["--untracked-files=no", "--", ".", ":(exclude)dvc.lock"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=GIT_S, env=git_variables()
        )
    except (OSError, subprocess.SubprocessError):
        return {}
    lines = done.stdout.splitlines()
    heads = dict(line.removeprefix("# ").split(" ", 1) for line in lines if line.startswith("# "))
    branch = heads["branch.head"]
    return {
        "revision": None if heads["branch.oid"] == "(initial)" else heads["branch.oid"],
        "branch": None if branch == "(detached)" else branch,
        "dirty": any(not line.startswith("#") for line in lines),
    }
