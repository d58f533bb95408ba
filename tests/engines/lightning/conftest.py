import pytest

from accelbench.isolation.hosts import Hosts


@pytest.fixture(scope="session")
def hosts():
    with Hosts() as running:
        yield running
