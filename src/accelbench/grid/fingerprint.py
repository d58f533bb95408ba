"""What a number depends on besides its settings: the machine, the versions, the code that measures."""

import hashlib
import os
import platform
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

import pynvml

from accelbench.devices import cpu, packages, tpu
from accelbench.devices.gpu import Gpu, visible_gpus
from accelbench.engines.registry import SUBSTITUTING
from accelbench.errors import UserError
from accelbench.grid.measuring_code import code_digest
from accelbench.project import PACKAGE
from accelbench.schema.secrets import kept
from accelbench.schema.serialize import read_bytes
from accelbench.schema.vocab import Engine

GIT_S = 10.0  # for which git is waited: a hook, or a file system of another machine, may never answer

# Distributions that compute. Those that plan, track or report (hydra-core, dvc, mlflow, pandas) change no number, and
# neither does accelbench's own version, since its measuring code has a digest.
COMPUTING = (
    *("torch", "torchvision", "torch_xla", "libtpu", "pytorch-lightning", "lightning", "tensorflow", "keras", "numpy"),
    *("jax", "jaxlib", "pillow", "timm", "transformers", "flash-attn", "mamba-ssm", "causal-conv1d", "bitsandbytes"),
    *("onnx", "onnxscript", "onnxruntime", "openvino", "nncf", "torchao"),
    *("triton", "nvidia-cudnn-cu12", "nvidia-nccl-cu12", "nvidia-cublas-cu12"),
)


def fingerprint(engine: Engine | None = None, package: Path = PACKAGE) -> dict[str, Any]:
    """The part of a record's identity that is not in its cell. Records with equal fingerprints are comparable.

    Args:
        engine: the engine whose code measures; None for the code of all engines.
        package: the folder of the accelbench package whose code measures.

    Returns:
        `machine` (cpu_name, instruction_sets, num_cores, num_threads, memory_gb, gpus, tpus, platform, python; with
        GPUs, gpu_details), `versions` (of the libraries that compute), `variables` (environment variables that tune
        them, see `schema.secrets.kept`) and `code` (`measuring_code.code_digest`), as plain JSON values. They do not
        depend on the load, the time or the host's name; the kernel counts by its major and minor release.
    """
    return {
        "machine": _machine(),
        "versions": _versions(),
        "variables": _variables(),
        "code": code_digest(package, engine),
    }


def files_digest(files: Iterable[tuple[Path, Path]]) -> str:
    """The sha256 over (name, path) of files in the given order: it changes with any name or byte."""
    total = hashlib.sha256()
    for name, path in files:
        total.update(f"{name.as_posix()} {hashlib.sha256(read_bytes(path)).hexdigest()}\n".encode())
    return total.hexdigest()


@cache
def source_digest(flag: str, path: str) -> str:
    """The sha256 over the source of a user's own code: the top-level package that holds it.

    If that is a single module, the other modules of its folder count too. It is searched in the current folder, then
    on Python's path. Nothing is imported.

    The arguments and the errors are those of `source_files`; it is one too if a file there can't be read.
    """
    try:
        return files_digest(sorted(source_files(flag, path).items()))
    except OSError as error:
        raise UserError(f"{flag}={path}: {error.filename}: {error.strerror}") from error


def source_files(flag: str, path: str) -> dict[Path, Path]:
    """What `source_digest` reads: name -> file.

    Args:
        flag: the setting that names it.
        path: the dotted path of a class or a function.

    Raises:
        UserError: there is no such package.
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


def git_state(root: Path) -> dict[str, Any]:
    """The checkout at `root`. It is recorded with the fingerprint, and is no part of the identity.

    Returns:
        `revision` (None before the first commit), `branch` (None when detached) and `dirty` (whether tracked files
        were changed); empty without a checkout, without git, or if git does not answer within `GIT_S`.
    """
    # Without dvc.lock, which DVC writes while it runs, and without untracked files: the code's digest covers those.
    command = ["git", "--no-optional-locks", "-C", str(root), "status", "--porcelain=v2", "--branch"]
    command += ["--untracked-files=no", "--", ".", ":(exclude)dvc.lock"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=GIT_S)
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


def _machine() -> dict[str, Any]:
    report = cpu.look()
    gpus = _gpus()
    kernel = ".".join(platform.release().split(".")[:2])
    return {
        "cpu_name": report.name,
        "instruction_sets": report.details.get("instruction_sets", ""),
        "num_cores": int(report.details["physical_cores"]) if "physical_cores" in report.details else None,
        "num_threads": int(report.details["usable_cores"]),
        "memory_gb": round((report.memory_bytes or 0) / 1e9),
        "gpus": [gpu.name for gpu in gpus],
        **({"gpu_details": [_details(gpu) for gpu in gpus]} if gpus else {}),
        "tpus": tpu.find_chips(),
        "platform": f"{platform.system()} {kernel} {platform.machine()}",
        "python": platform.python_version(),
    }


def _details(gpu: Gpu) -> dict[str, Any]:
    capability = gpu.compute_capability
    return {
        "memory_gb": None if gpu.memory_bytes is None else round(gpu.memory_bytes / 1e9),
        "multiprocessors": gpu.multiprocessors,
        "compute_capability": None if capability is None else f"{capability[0]}.{capability[1]}",
    }


def _versions() -> dict[str, str]:
    found = {name: version for name in COMPUTING if (version := packages.version(name)) is not None}
    if _gpus():
        found["nvidia-driver"] = pynvml.nvmlSystemGetDriverVersion()
    return found


def _variables() -> dict[str, str]:
    """The environment variables that tune the computing libraries, except those that no cell's process gets."""
    return {name: value for name, value in kept(os.environ).items() if name not in SUBSTITUTING}


def _gpus() -> list[Gpu]:
    try:
        return visible_gpus()
    except pynvml.NVMLError:
        return []
