import pytest

from accelbench.data.obtain import Target


@pytest.fixture
def target(tmp_path):
    folder = tmp_path / "target"
    folder.mkdir()
    return Target(folder)
