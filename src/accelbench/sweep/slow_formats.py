"""The 16-bit formats that a device has no units for, as its probe showed: they are slower than fp32, not faster."""

from collections.abc import Iterable, Iterator

from accelbench.presentation import significant
from accelbench.schema.ceilings import Ceilings, formats_of
from accelbench.schema.vocab import Precision

SIXTEEN_BITS = (Precision.fp16, Precision.bf16)
FAR_BELOW = 2.0  # times: the peak rate of fp32 over that of a format without units; with units, a format is the faster


def lines(ceilings: Ceilings | None, precisions: Iterable[Precision]) -> Iterator[str]:
    """A sentence for each 16-bit format of `precisions` whose probed peak rate is far below that of fp32.

    Args:
        ceilings: of the device; None if it could not be probed.
        precisions: of the cells to come; a mixed one computes in its 16-bit format.
    """
    rates = ceilings.flops_per_s if ceilings else {}
    fp32 = rates.get(Precision.fp32)
    for word in dict.fromkeys(word for precision in precisions for word in formats_of(precision)):
        rate = rates.get(word)
        if word in SIXTEEN_BITS and fp32 and rate and fp32 >= FAR_BELOW * rate:
            rates_text = f"{significant(rate / 1e9, 2)} against {significant(fp32 / 1e9, 2)} GFLOP/s in fp32"
            yield (
                f"{word} has no units here ({rates_text}): expect its cells about {fp32 / rate:.0f} times slower than "
                "fp32's, or more"
            )
