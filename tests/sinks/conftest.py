"""One store is made for all of these tests, since that takes seconds: most get a copy of it."""

import shutil
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _own_store(monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.delenv("DVC_ROOT", raising=False)


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory) -> Path:
    """A root, with both kinds of quotes in its name, that has a store."""
    from accelbench.sinks.mlflow import Store  # its import takes over a second

    root = tmp_path_factory.mktemp("created") / "'odd' and \"quoted\""
    root.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        Store(root).delivered("another")
    return root


@pytest.fixture
def root(empty_store, tmp_path) -> Path:
    """A root with a store of its own: a copy of the empty one."""
    shutil.copytree(empty_store, tmp_path / "project")
    return tmp_path / "project"
