import pytest

from accelbench.isolation.hosts import Hosts


@pytest.fixture(scope="package")
def hosts():
    with Hosts() as running:
        yield running
