import pytest

from accelbench.schema.vocab import Precision
from accelbench.sweep import slow_formats
from fakes import make_ceilings

WITHOUT_UNITS = {"fp32": 90e9, "bf16": 15e9, "fp16": 2.4e9, "fp64": 44e9, "int8": 9e9}
BF16 = (
    "bf16 has no units here (15 against 90 GFLOP/s in fp32): expect its cells about 6 times slower than fp32's, or more"
)
FP16 = (
    "fp16 has no units here (2.4 against 90 GFLOP/s in fp32): expect its cells about 38 times slower than fp32's, or "
    "more"
)


@pytest.mark.parametrize(
    ("rates", "precisions", "told"),
    [
        (WITHOUT_UNITS, ["fp32", "bf16"], [BF16]),
        (WITHOUT_UNITS, ["bf16", "fp16", "bf16"], [BF16, FP16]),
        (WITHOUT_UNITS, ["bf16_mixed"], [BF16]),
        (WITHOUT_UNITS, ["fp32", "fp64", "int8", "tf32"], []),  # integers and fp64 have units, which may be slower
        ({"fp32": 90e9, "bf16": 350e9}, ["bf16"], []),
        ({"fp32": 90e9, "bf16": 50e9}, ["bf16"], []),  # not far below: a probe may have been disturbed
        ({"fp32": 90e9}, ["bf16"], []),  # not known
        ({"bf16": 15e9}, ["bf16"], []),
    ],
)
def test_a_format_far_below_fp32_is_told(rates, precisions, told):
    ceilings = make_ceilings(flops_per_s=rates, how=dict.fromkeys(rates, "matmul"))
    assert list(slow_formats.lines(ceilings, map(Precision, precisions))) == told


def test_without_a_probe_nothing_is_told():
    assert not list(slow_formats.lines(None, [Precision.bf16]))
