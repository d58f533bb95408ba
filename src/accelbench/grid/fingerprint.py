"""What a number depends on besides its settings: the machine, the versions, the code that measures."""

import hashlib
import os
import platform
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pynvml

import accelbench
from accelbench.devices import cpu, nvml, packages, tpu
from accelbench.engines.registry import SUBSTITUTING

# Beginnings of the variables by which a user tunes the libraries that compute.
TUNING = (
    *("OMP_", "GOMP_", "KMP_", "MKL_", "ONEDNN_", "DNNL_", "ATEN_", "TORCH", "PYTORCH_", "MALLOC_", "LD_PRELOAD"),
    *("NCCL_", "GLOO_", "CUDA_", "CUBLAS", "CUDNN_", "NVIDIA_", "TRITON_", "CC", "CXX"),
    *("XLA_", "PJRT_", "LIBTPU_", "TPU_", "TF_", "KERAS_", "JAX_"),
)
PACKAGE = Path(accelbench.__path__[0])

# Distributions that compute. What plans, tracks or reports (hydra-core, dvc, mlflow, pandas) changes no
# number, and neither does accelbench's own version: its measuring code has a digest.
COMPUTING = (
    *("torch", "torchvision", "torch_xla", "libtpu", "pytorch-lightning", "tensorflow", "keras", "numpy"),
    *("jax", "jaxlib", "pillow", "timm", "triton", "nvidia-cudnn-cu12", "nvidia-nccl-cu12", "nvidia-cublas-cu12"),
)

# The modules of this package that a number passes through, from the bytes on disk to the raw sample.
MEASURING = (
    "stats/**/*.py",  # the clock stops by it
    "devices/**/*.py",
    "measuring/**/*.py",
    "isolation/**/*.py",
    "data/arrays.py",
    "data/decode.py",
    "data/order.py",
    "engines/**/*.py",
)


def fingerprint(package: Path = PACKAGE) -> dict[str, Any]:
    """The part of a record's identity that isn't in its cell: equal here means comparable.

    Args:
        package: the folder of the accelbench package whose code measures.

    Returns:
        `machine` (cpu_name, instruction_sets, num_cores, num_threads, memory_gb, gpus, tpus, platform, python),
        `versions` (of what computes), `variables` (of the shell that tune it) and `code` (`code_digest`), as plain
        JSON values. Nothing in it changes with
        load, time or the host's name; the kernel counts by its major and minor release.
    """
    return {
        "machine": _machine(),
        "versions": _versions(),
        "variables": _variables(),
        "code": code_digest(package),
    }


def code_digest(package: Path = PACKAGE) -> str:
    """The sha256 over names and bytes of the modules that measure, in sorted order.

    Raises:
        FileNotFoundError: `package` holds none of them.
    """
    paths = sorted({path for pattern in MEASURING for path in package.glob(pattern)})
    if not paths:
        raise FileNotFoundError(f"{package}: not the folder of the accelbench package")
    return files_digest((path.relative_to(package), path) for path in paths)


def files_digest(files: Iterable[tuple[Path, Path]]) -> str:
    """The sha256 over the (name, path) of files in their order: it changes with any name or byte."""
    total = hashlib.sha256()
    for name, path in files:
        total.update(f"{name.as_posix()} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest()


def git_state(root: Path) -> dict[str, Any]:
    """The checkout at `root`, recorded beside the fingerprint for people; no part of the identity.

    Returns:
        `revision` (None before the first commit), `branch` (None when detached) and `dirty`, whether files that git
        knows were changed; empty where there is no checkout or no git.
    """
    # DVC writes dvc.lock as it goes, and the digest of the measuring code sees files that git does not know.
    command = ["git", "--no-optional-locks", "-C", str(root), "status", "--porcelain=v2", "--branch"]
    command += ["--untracked-files=no", "--", ".", ":(exclude)dvc.lock"]
    try:
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        return {}
    heads = dict(line.removeprefix("# ").split(" ", 1) for line in lines if line.startswith("# "))
    branch = heads["branch.head"]
    return {
        "revision": None if heads["branch.oid"] == "(initial)" else heads["branch.oid"],
        "branch": None if branch == "(detached)" else branch,
        "dirty": any(not line.startswith("#") for line in lines),
    }


def _machine() -> dict[str, Any]:
    report = cpu.look()
    kernel = ".".join(platform.release().split(".")[:2])
    return {
        "cpu_name": report.name,
        "instruction_sets": report.details.get("instruction_sets", ""),
        "num_cores": int(report.details["physical_cores"]) if "physical_cores" in report.details else None,
        "num_threads": int(report.details["usable_cores"]),
        "memory_gb": round((report.memory_bytes or 0) / 1e9),
        "gpus": [gpu.name for gpu in _gpus()],
        "tpus": tpu.find_chips(),
        "platform": f"{platform.system()} {kernel} {platform.machine()}",
        "python": platform.python_version(),
    }


def _versions() -> dict[str, str]:
    found = {name: version for name in COMPUTING if (version := packages.version(name)) is not None}
    if _gpus():
        found["nvidia-driver"] = pynvml.nvmlSystemGetDriverVersion()
    return found


def _variables() -> dict[str, str]:
    """The shell's settings of the libraries that compute, but those that no cell sees."""
    return {
        name: value
        for name, value in sorted(os.environ.items())
        if name.startswith(TUNING) and name not in SUBSTITUTING
    }


def _gpus() -> list[nvml.Gpu]:
    try:
        return nvml.visible_gpus()
    except pynvml.NVMLError:
        return []
