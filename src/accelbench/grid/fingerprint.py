"""What a number depends on: the machine, the versions, the code that measures; and the identity of a record."""

import hashlib
import os
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pynvml

from accelbench.devices import allocators, cpu, packages, tpu
from accelbench.devices.gpu import visible_gpus
from accelbench.engines.registry import SUBSTITUTING
from accelbench.errors import UserError
from accelbench.grid.measuring_code import code_digest
from accelbench.grid.own_code import source_digest
from accelbench.project import PACKAGE
from accelbench.schema.cell import Cell
from accelbench.schema.measurement import Data
from accelbench.schema.secrets import kept
from accelbench.schema.serialize import digest, open_regular
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

    As plain JSON values: `machine`, `versions` of the libraries that compute, `variables` that tune them
    (`schema.secrets.kept`) and `code` (`measuring_code.code_digest` of the `engine`; None: of all engines). They do not
    depend on the load, the time or the host's name; the kernel counts by its major and minor release.
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
    versions = {name: version for name in COMPUTING if (version := packages.version(name)) is not None}
    if gpus:
        versions["nvidia-driver"] = pynvml.nvmlSystemGetDriverVersion()
    # Without the variables that no cell's process gets.
    variables = {name: value for name, value in kept(os.environ).items() if name not in SUBSTITUTING}
    return {"machine": machine, "versions": versions, "variables": variables, "code": code_digest(package, engine)}


def identity(cell: Cell, data: Data, fingerprint: Mapping[str, Any]) -> str:
    """The identity of a cell's record: the digest of all that its numbers depend on.

    That is its settings, data set and allocator, the fingerprint for its engine, the user's own code and weights.

    Raises UserError: the source of the user's own code can't be found, or the weights can't be read.
    """
    parts = {"settings": cell.settings(), "data": data.digest, "environment": fingerprint}
    if code := {flag: source_digest(flag, path) for flag, path in cell.own_code.items()}:
        parts["code"] = code
    if (weights := cell.model.weights_file) is not None:
        try:
            with open_regular(Path(weights)) as file:
                parts["weights"] = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise UserError(f"model.weights={weights}: not readable ({error.strerror})") from error
    if (library := allocators.library(cell.options.allocator)) is not None:
        parts["allocator"] = allocators.checksum(library)
    return digest(parts)


def git_state(root: Path) -> dict[str, Any]:
    """The checkout at `root`, which is no part of the identity: `revision`, `branch` (None when detached) and `dirty`.

    `dirty`: whether tracked files were changed. Empty without a checkout, or if git does not answer within `GIT_S`.
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
