import pytest

from accelbench.isolation.hosts import Hosts
from fakes import faulty_host


@pytest.fixture(scope="package")
def hosts():
    with Hosts(faulty_host) as running:
        yield running
