import pytest

from accelbench.engines.formats import FORMATS, word_for
from accelbench.schema.vocab import Precision


@pytest.mark.parametrize("precision", Precision)
def test_each_precision_is_recognised_by_its_formats(precision):
    assert word_for(*FORMATS[precision], tf32=precision == Precision.tf32) == precision


def test_formats_without_a_word_are_described():
    assert word_for("float64", "float32", tf32=False) == "weights float64, computed in float32"


def test_only_fp32_can_be_tf32():
    assert word_for("float32", "bfloat16", tf32=True) == Precision.bf16_mixed
