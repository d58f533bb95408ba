"""What the environments are called that cells run in (`Cell.python`): by what differs, if that is one package alone."""

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

USUAL = (".venv", "venv", ".env", "env")  # names of folders that say nothing: the name of the one above does
OF_CUDA = (
    "nvidia-cudnn-cu12",
    "nvidia-nccl-cu12",
    "nvidia-cublas-cu12",
    "nvidia-cudnn-cu13",
    "nvidia-nccl-cu13",
    "nvidia-cublas",  # of CUDA 13
)
WITH_TORCH = ("torchvision", "triton", *OF_CUDA)  # as torch asks
UNASKED = ("flash-attn", "mamba-ssm", "causal-conv1d")  # used where they are installed; of others a cell says so
OWN, PYTHON = "accelbench's own", "Python"


def folder_name(python: str) -> str:
    """The name of the folder of an environment, such as `new` of `/home/me/new/.venv`; or of an interpreter."""
    path = PurePath(python)
    return (path.parent if path.name in USUAL else path).name or python


def names(environments: Sequence[tuple[str | None, Mapping[str, Any]]]) -> list[str]:
    """What the environments are called, each with its `Cell.python` and what a record has of it; empty if all are one.

    Such as `torch 2.9.1` if they differ in one package alone and what comes with it, or `Python 3.12.1`; else by their
    folders. A package that only some have does not count, since their cells do without it.
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
