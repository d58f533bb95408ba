import shutil
from pathlib import Path

import pytest


@pytest.fixture
def root(empty_store, tmp_path) -> Path:
    """A root with a store of its own: a copy of the empty one."""
    shutil.copytree(empty_store, tmp_path / "project")
    return tmp_path / "project"
