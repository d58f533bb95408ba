from pathlib import Path

import pytest

from accelbench.report.read import Sweep
from accelbench.report.read import read as read_sweep
from report.conftest import Maker, inferring


@pytest.fixture(scope="session")
def maker() -> Maker:
    return Maker()


@pytest.fixture
def read(tmp_path: Path, maker):
    """From records to the sweep that holds them."""

    def read(records, waiting=(), **plan) -> Sweep:
        return read_sweep(maker.suite(tmp_path, records, waiting, **plan))

    return read


@pytest.fixture
def scaled(read, maker):
    """Study 003's sweep: three batches on each of two devices, of which one is five times as fast."""
    records = [
        inferring(maker, "scaling_cnn_small", device, rate=rate * gain, batch_size=batch)
        for device, gain in (("cpu", 1), ("gpu", 5))
        for batch, rate in ((1, 100), (8, 290), (16, 300))
    ]
    return read(records, study="003")
