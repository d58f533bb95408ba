"""Names the Python environments that cells run in (`Cell.python`).

If the environments differ in one package, a name is this package and its version. Otherwise a name is a folder.
"""

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

USUAL = (".venv", "venv", ".env", "env")  # usual names of an environment's folder; the folder above has the better name
OF_CUDA = (
    "nvidia-cudnn-cu12",
    "nvidia-nccl-cu12",
    "nvidia-cublas-cu12",
    "nvidia-cudnn-cu13",
    "nvidia-nccl-cu13",
    "nvidia-cublas",  # of CUDA 13
)
WITH_TORCH = ("torchvision", "triton", *OF_CUDA)  # packages that a release of torch requires
UNASKED = ("flash-attn", "mamba-ssm", "causal-conv1d")  # packages that are used, without a setting, if installed
OWN, PYTHON = "accelbench's own", "Python"


def folder_name(python: str) -> str:
    """Shortens the path of an environment or of an interpreter to a name, such as `/home/me/new/.venv` to `new`."""
    path = PurePath(python)
    return (path.parent if path.name in USUAL else path).name or python


def names(environments: Sequence[tuple[str | None, Mapping[str, Any]]]) -> list[str]:
    """Returns a name for each of `environments`. If all have the same `python`, the names are empty.

    Each of `environments` is a pair: the setting `python` of a cell, and the entry `environment` of the cell's record.

    If the environments differ in only one package, a name is this package and its version, such as `torch 2.9.1` or
    `Python 3.12.1`. If they differ in several packages, a name is the environment's folder.

    Two kinds of differences are ignored. If the versions of torch differ, the packages in `WITH_TORCH` are ignored. If
    some environments lack a package, this package is ignored, except if it is in `UNASKED`.
    """
    if len({python for python, _ in environments}) < 2:
        return [""] * len(environments)
    versions = [{PYTHON: of.get("machine", {}).get("python"), **of.get("versions", {})} for _, of in environments]
    differing = []
    for name in dict.fromkeys(name for of_one in versions for name in of_one):
        values = {of_one.get(name) for of_one in versions}
        if len(values) > 1 and (None not in values or name in UNASKED):
            differing.append(name)
    if "torch" in differing:
        differing = [name for name in differing if name not in WITH_TORCH]
    if len(differing) == 1:
        return [f"{differing[0]} {of_one.get(differing[0]) or 'missing'}" for of_one in versions]
    return [folder_name(python) if python else OWN for python, _ in environments]
