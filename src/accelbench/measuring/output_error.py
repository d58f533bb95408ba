"""How far a cell's output is from the output of the same weights in fp32 on the CPU."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelbench.schema.vocab import Precision

# Samples whose output is compared with the reference's, where that takes only these samples.
NUM_SAMPLES = 2
# Relative errors above these are not explained by rounding: for fp32 and fp64 (24 or 53 significant bits), and for
# all other formats (8 to 11 bits).
MAX_ERROR = 1e-3
MAX_ROUNDED_ERROR = 0.1
# Relative errors above these make a cell invalid: an output that has nothing to do with the reference has one of 1 to
# 1.4. Between the two, deep networks may add up their rounding, and quantisation loses some of the output.
WRONG = 1e-2
ROUNDED_WRONG = 0.5


def relative_error(output: NDArray[Any], reference: NDArray[Any]) -> float | None:
    """The norm of the difference divided by the norm of `reference`; None if that is not a finite number.

    Also None if the shapes differ.
    """
    if output.shape != reference.shape:
        return None
    output, reference = output.astype(np.float64), reference.astype(np.float64)
    norm = float(np.linalg.norm(reference))
    error = float(np.linalg.norm(output - reference)) / norm if norm else math.nan
    return error if math.isfinite(error) else None


def limit(precision: Precision) -> float:
    """The largest `output_error` that rounding in `precision` explains."""
    return MAX_ERROR if precision in (Precision.fp32, Precision.fp64) else MAX_ROUNDED_ERROR


def wrong(precision: Precision) -> float:
    """The `output_error` above which an output in `precision` is not that of the network."""
    return WRONG if precision in (Precision.fp32, Precision.fp64) else ROUNDED_WRONG
