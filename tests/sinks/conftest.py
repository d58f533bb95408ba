"""One store is made for all of these tests, since that takes seconds: most get a copy of it."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.sinks.stores import SCRIPT, started


@pytest.fixture(autouse=True)
def _own_store(monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.delenv("DVC_ROOT", raising=False)


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory) -> Path:
    """A root, with both kinds of quotes in its name, whose store was created by two processes in it at once."""
    root = tmp_path_factory.mktemp("created") / "'odd' and \"quoted\""
    root.mkdir()
    script = SCRIPT.format(module="mlflow", what="Store", call="Store(Path(sys.argv[1])).delivered('racing')")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        creators = [started(script, root, cwd=root, stderr=subprocess.PIPE) for _ in range(2)]
        assert [creator.communicate()[1] for creator in creators] == [b"", b""]
    assert [creator.returncode for creator in creators] == [0, 0]
    return root


@pytest.fixture
def root(empty_store, tmp_path) -> Path:
    """A root with a store of its own: a copy of the empty one."""
    shutil.copytree(empty_store, tmp_path / "project")
    return tmp_path / "project"
