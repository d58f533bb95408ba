"""Installed packages: their folders and versions, without importing them; and how to install a missing one."""

import importlib.metadata
import importlib.util
from pathlib import Path

from accelbench.project import is_checkout


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


def how_to_install(extra: str) -> str:
    """The command that installs the packages of an extra of accelbench: in its checkout, all are installed at once."""
    return "make setup" if is_checkout() else f"pip install 'accelbench[{extra}]'"
