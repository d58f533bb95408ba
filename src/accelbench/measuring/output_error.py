"""How far a cell's output is from what the same weights give in fp32 on the CPU, and how far rounding may take it."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelbench.schema.vocab import Precision

NUM_SAMPLES = 2
# What relative difference is more than rounding: of formats with 24 bits and more, and of those with 8 to 11.
MAX_ERROR = 1e-3
MAX_ROUNDED_ERROR = 0.1


def relative_error(output: NDArray[Any], reference: NDArray[Any]) -> float | None:
    """The norm of the difference over the norm of `reference`; None where it is not finite, or that norm is zero."""
    output, reference = output.astype(np.float64), reference.astype(np.float64)
    norm = float(np.linalg.norm(reference))
    error = float(np.linalg.norm(output - reference)) / norm if norm else math.nan
    return error if math.isfinite(error) else None


def limit(precision: Precision) -> float:
    """The largest `output_error` that rounding explains."""
    return MAX_ERROR if precision in (Precision.fp32, Precision.fp64) else MAX_ROUNDED_ERROR
