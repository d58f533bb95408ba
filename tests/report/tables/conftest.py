from pathlib import Path

import pytest

from accelbench.report.read import Sweep
from accelbench.report.read import read as read_sweep


@pytest.fixture
def read(tmp_path: Path, maker):
    """From records to the sweep that holds them."""

    def read(records, waiting=(), **plan) -> Sweep:
        return read_sweep(maker.suite(tmp_path, records, waiting, **plan))

    return read
