"""A table of the number formats of each precision, such as bf16_mixed. All engines use this table."""

from collections.abc import Mapping
from typing import NamedTuple

from accelbench.schema.vocab import Precision


class Formats(NamedTuple):
    """The number formats of a precision, by their names in NumPy."""

    stored: str  # of the weights
    computed: str  # of the factors of matrix products


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
INTEGERS = frozenset({"int8", "uint8"})  # the formats of quantised operators


def computed_in(formats: Mapping[str, int]) -> str:
    """Names the formats of a network's matrix products. If any product multiplies integers, the only name is `int8`.

    `formats` maps a format to the number of products in this format.
    """
    return "int8" if INTEGERS & set(formats) else ", ".join(sorted(formats))


def word_for(stored: str, computed: str, *, tf32: bool) -> str:
    """Returns the precision that has the formats `stored` and `computed` (see `Formats`), such as `bf16_mixed`.

    If no precision has them, returns a text that names both formats. `tf32` is true if products of fp32 numbers were
    computed in TF32.
    """
    if stored == computed == "float32":
        return Precision.tf32 if tf32 else Precision.fp32
    for word, formats in FORMATS.items():
        if formats == (stored, computed):
            return word
    return f"weights {stored}, computed in {computed}"
