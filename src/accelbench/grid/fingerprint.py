"""What a record's numbers depend on: the machine, the versions and the measuring code; and the record's identity.

The digest of the measuring code covers the bytes of the files in `ROOMS` and of the engine. After any edit there, the
cells are measured again.
"""

import os
import platform
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
from accelbench.schema.cell import Cell
from accelbench.schema.measurement import Data
from accelbench.schema.secrets import kept
from accelbench.schema.serialize import digest, sha256_of
from accelbench.schema.vocab import EXPORTING, Engine

GIT_S = 10.0  # how long git may take: a hook, or a remote file system, may never answer

OF_HOOKS = {
    *("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX", "GIT_NAMESPACE"),
    *("GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES"),
}
DRIVER = "nvidia-driver"


def fingerprint(engine: Engine | None = None, package: Path = PACKAGE) -> dict[str, Any]:
    """The part of a record's identity that is not in its cell. Records with equal fingerprints are comparable.

    It has plain JSON values: `machine`, `versions` of the libraries that compute, `variables` that tune them
    (`schema.secrets.kept`), and `code` (`code_digest` of `engine`; None: of all engines). They do not depend on the
    load, the time or the host's name. Of the kernel's version, only the major and minor numbers count.
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
            "compute_capability": ".".join(map(str, gpu.compute_capability)) if gpu.compute_capability else None,
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
    versions = {name: version for name in packages.COMPUTING if (version := packages.version(name)) is not None}
    if gpus:
        versions[DRIVER] = pynvml.nvmlSystemGetDriverVersion()
    # Without variables that no cell's process gets.
    variables = {name: value for name, value in kept(os.environ).items() if name not in SUBSTITUTING}
    return {"machine": machine, "versions": versions, "variables": variables, "code": code_digest(package, engine)}


def of_cell(cell: Cell, fingerprint: Mapping[str, Any]) -> dict[str, Any]:
    """The fingerprint of the cell's engine; with the versions of the cell's interpreter, if that is another one."""
    if cell.python is None:
        return dict(fingerprint)
    interpreter = interpreters.look(cell.python)
    here = fingerprint["versions"]
    versions = {**interpreter.versions, **({DRIVER: here[DRIVER]} if DRIVER in here else {})}
    return {**fingerprint, "machine": {**fingerprint["machine"], "python": interpreter.version}, "versions": versions}


# The rooms and files whose code changes a number, besides the files of engines/ itself and the folder of the cell's
# engine.
ROOMS = (
    *("devices", "isolation", "measuring", "serving", "stats", "lifeline.py"),
    *("judging/roofline.py", "judging/verdict.py"),
    *("data/arrays.py", "data/decode.py", "data/order.py"),
    *("schema/cell.py", "schema/measurement.py", "schema/workload.py"),
    "engines/pytorch/probe.py",  # its results judge the cells of every engine
)
# The folders of engines/ that other engines use, too.
BUILT_ON = {Engine.lightning: ("pytorch",), **dict.fromkeys(EXPORTING, ("exported", "pytorch"))}


def code_digest(package: Path, engine: Engine | None = None) -> str:
    """The sha256 of the code that measures the cells of `engine`; None: of every engine.

    Raises FileNotFoundError: `package` has no such code.
    """
    paths = sorted(set(measuring_files(package, engine)))
    if not paths:
        raise FileNotFoundError(f"{package}: not the folder of the accelbench package")
    return digest({str(path.relative_to(package)): sha256_of(path) for path in paths})


def measuring_files(package: Path, engine: Engine | None = None) -> list[Path]:
    """The files of the code that measures the cells of `engine`; None: of every engine."""
    files = list(package.glob("engines/*.py"))
    engines = ["*"] if engine is None else [engine.value, *BUILT_ON.get(engine, ())]
    for place in (*ROOMS, *(f"engines/{name}" for name in engines)):
        files += package.glob(place if place.endswith(".py") else f"{place}/**/*.py")
    return files


def identity(cell: Cell, data: Data, fingerprint: Mapping[str, Any]) -> str:
    """The identity of a cell's record: the digest of everything that its numbers depend on.

    These are the settings, the data set, the allocator, the fingerprint of the engine, the versions of the cell's
    interpreter, and the user's code and weights. Raises UserError: the user's code or weights can't be found or read.
    """
    environment = {**of_cell(cell, fingerprint), **own_files(cell)}
    return digest({"settings": cell.settings(), "data": data.digest, "environment": environment})


def own_files(cell: Cell) -> dict[str, dict[str, str]]:
    """The digests of the user's code, weights and allocator, by setting, under `files`; empty without any.

    Raises as `identity` does.
    """
    digests = {flag: source_digest(flag, path, Path.cwd()) for flag, path in cell.own_code.items()}
    if cell.model.weights_file is not None:
        digests["model.weights"] = _weights_digest(Path.cwd() / cell.model.weights_file)
    if (library := allocators.library(cell.options.allocator)) is not None:
        digests["allocator"] = allocators.checksum(library)
    return {"files": digests} if digests else {}


def _weights_digest(path: Path) -> str:
    """The sha256 of a file of weights. Raises UserError: it can't be read."""
    try:
        stat = path.stat()
        return _digest_of(path, stat.st_mtime_ns, stat.st_ino)
    except OSError as error:
        raise UserError(f"model.weights={path}: not readable ({error.strerror})") from error


@cache  # cached until the file changes: reading it takes long
def _digest_of(path: Path, modified_ns: int, inode: int) -> str:
    return sha256_of(path)


def git_variables() -> dict[str, str]:
    """The environment without the variables that a git hook sets for its own repository."""
    return {name: value for name, value in os.environ.items() if name not in OF_HOOKS}


def git_state(root: Path) -> dict[str, Any]:
    """The checkout at `root`: `revision`, `branch` (None when detached) and `dirty` (tracked files were changed).

    It is not part of the identity. Empty without a checkout, or if git does not answer within `GIT_S`.
    """
    # Without dvc.lock, which DVC writes while it runs. Untracked files do not count, since the digest covers code.
    command = ["git", "--no-optional-locks", "-C", str(root), "status", "--porcelain=v2", "--branch"]
    command += ["--untracked-files=no", "--", ".", ":(exclude)dvc.lock"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=GIT_S, env=git_variables())
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
