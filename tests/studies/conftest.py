import pytest

from report.conftest import inferring, maker, read  # noqa: F401


@pytest.fixture
def scaled(read, maker):  # noqa: F811
    """Study 003's sweep: three batches on each of two devices, of which one is five times as fast."""
    records = [
        inferring(maker, "scaling_cnn_small", device, rate=rate * gain, batch_size=batch)
        for device, gain in (("cpu", 1), ("gpu", 5))
        for batch, rate in ((1, 100), (8, 290), (16, 300))
    ]
    return read(records, study="003")
