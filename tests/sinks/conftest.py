"""Most of these tests get a copy of one store."""

import shutil
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _own_store(monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


@pytest.fixture
def root(empty_store, tmp_path) -> Path:
    """A root with a store of its own: a copy of the empty one."""
    shutil.copytree(empty_store, tmp_path / "project")
    return tmp_path / "project"
