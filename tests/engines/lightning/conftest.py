import pytest

from accelbench.isolation.hosts import Hosts
from xla_process import Forking


@pytest.fixture(scope="session")
def hosts():
    with Hosts() as running:
        yield running


@pytest.fixture(scope="session")
def printed():
    """A function: what code prints in a process of its own, with torch_xla."""
    with Forking() as forking:
        yield forking.printed
