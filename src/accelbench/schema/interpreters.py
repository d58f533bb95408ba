"""Names of the environments that cells run in (`Cell.python`): the one package that differs, else the folders."""

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
    """The name of an environment's folder, such as `new` of `/home/me/new/.venv`; or of an interpreter."""
    path = PurePath(python)
    return (path.parent if path.name in USUAL else path).name or python


def names(environments: Sequence[tuple[str | None, Mapping[str, Any]]]) -> list[str]:
    """A name for each environment. Empty names if all are the same environment.

    If the environments differ in one package only, names are such as `torch 2.9.1` or `Python 3.12.1`. Packages that
    torch requires do not count. A package that an environment lacks does not count either, except one of `UNASKED`. If
    several packages differ, names are folders.

    `environments`: for each environment, its `Cell.python` and the environment in its records.
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
