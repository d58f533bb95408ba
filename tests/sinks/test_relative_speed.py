import pytest

from accelbench.schema.vocab import Precision, Status
from accelbench.sinks.relative_speed import relative_speeds
from tests.sinks.samples import STAND_IN, cell, record


def test_a_record_is_compared_with_those_that_did_the_same():
    fp32, bf16 = record(cell()), record(cell(precision=Precision.bf16), number=1)
    alone = [record(cell("mlp"), number=2), record(cell(), data=STAND_IN, number=3)]
    failed = record(cell(batch_size=1), Status.failed, number=4)
    found = relative_speeds([fp32, bf16, *alone, failed])
    assert [each.record for each in found] == [fp32, bf16]
    assert max(each.share for each in found) == 1.0
    assert len({each.fastest.name for each in found}) == 1
    (slower,) = [each for each in found if each.share < 1]
    assert slower.record == fp32
    assert slower.share == pytest.approx(1 / 1.7, rel=0.1)  # as the samples are made
