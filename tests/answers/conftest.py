"""Cells of records that `maker` makes."""

import pytest

from accelbench.answers.cells import cells_of
from accelbench.answers.process import Process
from report.conftest import Maker


@pytest.fixture(scope="session")
def maker() -> Maker:
    return Maker()


@pytest.fixture(scope="session")
def cells():
    """From records to their cells."""
    return lambda records: cells_of(map(Process.of, records))
