"""Environments beside the one that runs the tests, made without a network."""

import subprocess
import sys
import sysconfig
from pathlib import Path


def make_environment(folder: Path, **versions: str) -> Path:
    """An environment with all packages of this one, but for those given, which have another version; empty without."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    for name, version in versions.items():
        (site / f"{name}-{version}.dist-info").mkdir()
        (site / f"{name}-{version}.dist-info/METADATA").write_text(f"Name: {name}\nVersion: {version}\n")
        (site / name).mkdir()
        (site / name / "__init__.py").write_text(f"__version__ = '{version}'\n")
    if versions:
        (site / "first.pth").write_text(sysconfig.get_path("purelib"))
    return folder
