"""Installed packages: their folders and versions, without importing them; and how to install a missing one."""

import importlib.metadata
import importlib.util
import re
from pathlib import Path

from accelbench.project import is_checkout

# The first torch whose memory no hostile file corrupts in torch.load with weights_only=True (CVE-2026-24747).
SAFE_TORCH = (2, 10)


def folder(package: str) -> Path | None:
    """The folder of a top-level package; None if it isn't installed."""
    spec = importlib.util.find_spec(package)
    return Path(spec.origin).parent if spec is not None and spec.origin else None


def version(distribution: str) -> str | None:
    """An installed distribution's version; None if it isn't installed."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def is_safe_torch(version: str) -> bool:
    """Whether this version of torch may read files with `torch.load`, if only with `weights_only=True`."""
    if (found := re.match(r"(\d+)\.(\d+)(?:\.\d+)*([^+]*)", version)) is None:
        return False
    # What was built before the first safe release may lack the correction.
    release, is_early = (int(found[1]), int(found[2])), not found[3].startswith(".post") and found[3] != ""
    return release > SAFE_TORCH or (release == SAFE_TORCH and not is_early)


def how_to_install(extra: str) -> str:
    """The command that installs the packages of an extra of accelbench: in its checkout, all are installed at once."""
    return "make setup" if is_checkout() else f"pip install 'accelbench[{extra}]'"
