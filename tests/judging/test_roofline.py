import dataclasses

import pytest

from accelbench.judging.roofline import bound
from accelbench.schema.measurement import Work
from accelbench.schema.vocab import Bound
from schema.test_ceilings import CEILINGS

# 0.2 s of arithmetic in fp32, 0.1 s of memory traffic, 0.01 s of launches.
WORK = Work(flops=2 * 10**11, bytes=10**10, num_operators=1000)


@pytest.mark.parametrize(
    ("work", "precision", "measured", "word"),
    [
        *((WORK, "fp32", {"data_s": 0.0}, Bound.compute), (WORK, "fp32", {}, Bound.compute)),
        *((WORK, "bf16_mixed", {}, Bound.memory), (WORK, "fp32", {"data_s": 0.3}, Bound.data)),
        *((WORK, "fp32", {"data_s": 0.1}, Bound.compute), (WORK, "fp32", {"copy_s": 0.3}, Bound.copy)),
        *((WORK, "fp32", {"copy_s": 0.1}, Bound.compute), (None, "fp32", {"data_s": 0.3}, Bound.data)),
        (dataclasses.replace(WORK, num_operators=3 * 10**4), "fp32", {}, Bound.launch),
        (dataclasses.replace(WORK, num_operators=10**6), "fp32", {}, Bound.compute),  # more than the whole step
        (dataclasses.replace(WORK, flops=None), "fp32", {}, None),
        (WORK, "fp64", {}, None),
        (None, "fp32", {}, None),
        (WORK, "fp32", {"fused": True}, None),
        (WORK, "fp32", {"fused": True, "data_s": 0.4}, Bound.data),
    ],
)
def test_the_bound_is_what_is_waited_for_longest(work, precision, measured, word):
    assert bound(work, 0.5, CEILINGS, precision, **measured) == word
    assert bound(work, 0.5, None, precision, **measured) == (word if word in (Bound.data, Bound.copy) else None)
