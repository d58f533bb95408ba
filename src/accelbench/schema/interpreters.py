"""What the environments are called that cells run in (`Cell.python`): by what differs, if that is one package alone."""

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

USUAL = (".venv", "venv", ".env", "env")  # names of folders that say nothing: the name of the one above does
WITH_TORCH = ("torchvision", "triton", "nvidia-cudnn-cu12", "nvidia-nccl-cu12", "nvidia-cublas-cu12")  # as torch asks
UNASKED = ("flash-attn", "mamba-ssm", "causal-conv1d")  # used where they are installed; of others a cell says so
OWN = "accelbench's own"


def folder_name(python: str) -> str:
    """The name of the folder of an environment, such as `new` of `/home/me/new/.venv`; or of an interpreter."""
    path = PurePath(python)
    return (path.parent if path.name in USUAL else path).name or python


def names(environments: Mapping[str | None, Mapping[str, Any]]) -> dict[str | None, str]:
    """`Cell.python` -> the name of the environment, by what records have of it; empty for a single one.

    Such as `torch 2.9.1` if they differ in one package alone and what comes with it, or `Python 3.12.1`; else by their
    folders. A package that only some have does not count, since their cells do without it.
    """
    if len(environments) < 2:
        return {}
    versions = {
        python: {"Python": each.get("machine", {}).get("python"), **each.get("versions", {})}
        for python, each in environments.items()
    }
    found = {name: {each.get(name) for each in versions.values()} for each in versions.values() for name in each}
    differing = [name for name, these in found.items() if len(these) > 1 and (None not in these or name in UNASKED)]
    told = [name for name in differing if name not in WITH_TORCH or "torch" not in differing]
    if len(told) == 1:
        return {python: f"{told[0]} {each.get(told[0]) or 'missing'}" for python, each in versions.items()}
    folders = {python: folder_name(python) if python else OWN for python in versions}
    is_clear = len(set(folders.values())) == len(folders)
    return {python: name if is_clear else python or OWN for python, name in folders.items()}
