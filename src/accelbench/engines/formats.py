"""The number formats of each precision word: one table for all engines."""

from collections.abc import Mapping
from typing import NamedTuple

from accelbench.schema.vocab import Precision


class Formats(NamedTuple):
    """NumPy's names of the dtypes that weights are stored in and that matrix products are computed in."""

    stored: str
    computed: str


FORMATS: Mapping[Precision, Formats] = {
    Precision.fp16: Formats("float16", "float16"),
    Precision.bf16: Formats("bfloat16", "bfloat16"),
    Precision.fp32: Formats("float32", "float32"),
    Precision.tf32: Formats("float32", "float32"),
    Precision.fp64: Formats("float64", "float64"),
    Precision.fp16_mixed: Formats("float32", "float16"),
    Precision.bf16_mixed: Formats("float32", "bfloat16"),
    Precision.int8: Formats("int8", "int8"),
}
INTEGERS = frozenset({"int8", "uint8"})  # NumPy's names of integers that quantised operators multiply


def computed_in(formats: Mapping[str, int]) -> str:
    """What matrix products compute in, of `formats` (format -> how many); int8 if any multiplies integers."""
    return "int8" if INTEGERS & set(formats) else ", ".join(sorted(formats))


def word_for(stored: str, computed: str, *, tf32: bool) -> str:
    """The word for the precision that ran, of the dtypes of weights and outputs; their names if there is no word."""
    if stored == computed == "float32":
        return Precision.tf32 if tf32 else Precision.fp32
    for word, formats in FORMATS.items():
        if formats == (stored, computed):
            return word
    return f"weights {stored}, computed in {computed}"
