import pytest

from accelbench.isolation.hosts import Hosts
from fakes import faulty_host


@pytest.fixture(scope="module")
def shared():
    """Hosts of an engine that fails as its cells say."""
    with Hosts(faulty_host) as running:
        yield running
