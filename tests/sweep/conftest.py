import pytest

from accelbench.isolation.hosts import Hosts
from fakes import faulty_host, give_ceilings, make_project


@pytest.fixture(scope="module")
def shared():
    """Hosts of an engine that fails as its cells say."""
    with Hosts(faulty_host) as running:
        yield running


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project, which is the current folder, on a machine whose CPU was probed."""
    make_project(tmp_path)
    give_ceilings(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path
