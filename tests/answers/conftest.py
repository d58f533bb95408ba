import pytest

from accelbench.answers.cells import Process, cells_of
from accelbench.answers.jobs import jobs
from report.conftest import maker  # noqa: F401


@pytest.fixture(scope="session")
def cells():
    return lambda records: cells_of(map(Process.of, records))


@pytest.fixture(scope="session")
def answered(cells):
    return lambda records: jobs(cells(records))
