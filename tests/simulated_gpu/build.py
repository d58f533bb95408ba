"""Builds the simulated driver of an NVIDIA GPU, and says what a process needs to run on it."""

import os
import shutil
import subprocess
from pathlib import Path

from accelbench.devices import packages

HERE = Path(__file__).parent
LIBRARIES = {"runtime": "libcudart.so", "cupti": "libcupti.so", "driver": "libcuda.so.1", "nvml": "libnvidia-ml.so.1"}


def headers() -> list[Path]:
    """The folders of CUDA's headers, which come with torch's builds for CUDA 12."""
    nvidia = packages.folder("torch").parent / "nvidia"
    return [nvidia / name / "include" for name in ("cuda_runtime", "cuda_cupti")]


def why_not() -> str | None:
    if shutil.which("gcc") is None:
        return "needs gcc"
    if packages.cuda_of_torch() is None or not all(map(Path.exists, headers())):
        return "needs torch's build for CUDA 12, with its headers"
    return None


def build(folder: Path) -> dict[str, str]:
    """Builds it in `folder`; returns the variables with which a process sees the simulated GPUs (see gpus.h)."""
    for source, library in LIBRARIES.items():
        command = ["gcc", "-shared", "-fPIC", "-O1", "-w", f"-I{HERE / 'source'}", *(f"-I{each}" for each in headers())]
        command += ["-o", folder / library, HERE / "source" / f"{source}.c", "-lpthread"]
        subprocess.run(command, check=True)
    return {
        "LD_PRELOAD": " ".join(str(folder / LIBRARIES[source]) for source in ("runtime", "cupti")),
        "LD_LIBRARY_PATH": str(folder),
        "PYTHONPATH": os.pathsep.join([str(HERE / "python"), str(HERE.parent)]),
    }
