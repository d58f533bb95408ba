import pytest

from accelbench.report import read
from accelbench.schema.vocab import Mode
from accelbench.schema.work import Work
from report.pictures.test_roofline import working


@pytest.fixture
def cells(tmp_path, maker):
    """Three cells with a breakdown and counted operations, and one with neither."""
    records = [
        working(maker, "mlp"),
        working(maker, "mlp", "bf16"),
        working(maker, "cnn", mode=Mode.train),
        working(maker, "rnn", work=Work(uncounted=["aten.fft"]), breakdown=None),
    ]
    return read.read(maker.suite(tmp_path, records)).cells
