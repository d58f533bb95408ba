"""The tensors of a network's output, and how far two outputs are from each other."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelbench.schema.vocab import Precision

Shape = tuple[int, ...]
# Samples whose output is compared with the reference's, where that takes only these samples.
NUM_SAMPLES = 2
PRECISE = (Precision.fp32, Precision.fp64)
# Relative errors above these are not explained by rounding: for fp32 and fp64 (24 or 53 significant bits), and for
# all other formats (8 to 11 bits).
MAX_ERROR, MAX_ROUNDED_ERROR = 1e-3, 0.1
# Relative errors above these make a cell invalid: an output that has nothing to do with the reference has one of 1 to
# 1.4. Between the two, deep networks may add up their rounding, and quantisation loses some of the output.
WRONG, ROUNDED_WRONG = 1e-2, 0.5


@dataclass(frozen=True)
class OutputTensor:
    """One tensor of a network's output for a batch."""

    shape: Shape  # of the tensor
    # for each dimension that may be the batch's (`batch_axes`): the values for the samples that are compared, float64,
    # one row per sample. Empty if they are no floating-point numbers. Which dimension it is shows in the output for a
    # batch of another size.
    rows: Mapping[int, NDArray[Any]] = field(default_factory=dict)


# All tensors of a network's output, in order.
Output = Sequence[OutputTensor]


def difference(one: NDArray[Any], other: NDArray[Any]) -> float:
    """Of arrays of one shape, the norm of the difference over the larger norm; infinite if a value is not finite."""
    if not (np.isfinite(one).all() and np.isfinite(other).all()):
        return np.inf
    norm = max(float(np.linalg.norm(one)), float(np.linalg.norm(other)))
    return float(np.linalg.norm(one - other)) / norm if norm else 0.0


def relative_error(output: NDArray[Any], reference: NDArray[Any]) -> float | None:
    """The norm of the difference over that of `reference`; None if the shapes differ or that is no finite number."""
    if output.shape != reference.shape:
        return None
    output, reference = output.astype(np.float64), reference.astype(np.float64)
    norm = float(np.linalg.norm(reference))
    error = float(np.linalg.norm(output - reference)) / norm if norm else math.nan
    return error if math.isfinite(error) else None


def limit(precision: Precision) -> float:
    """The largest `output_error` that rounding in `precision` explains."""
    return MAX_ERROR if precision in PRECISE else MAX_ROUNDED_ERROR


def wrong(precision: Precision) -> float:
    """The `output_error` above which an output in `precision` is not that of the network."""
    return WRONG if precision in PRECISE else ROUNDED_WRONG


def first_rows(output: Output, num: int) -> Output:
    """The output with the first `num` of its rows."""
    return [OutputTensor(each.shape, {axis: rows[:num] for axis, rows in each.rows.items()}) for each in output]


def pairs_of(one: Output, other: Output) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    """The rows of two outputs' tensors along each dimension that may be the batch's in both, and that makes them alike.

    With outputs for batches of two sizes that is one dimension, the batch's. With outputs for one size there may be
    several: then all of them show whether the outputs are the same.
    """
    for first, second in zip(one, other, strict=False):
        for axis in first.rows.keys() & second.rows.keys():
            num = min(len(first.rows[axis]), len(second.rows[axis]))
            pair = first.rows[axis][:num], second.rows[axis][:num]
            if pair[0].shape == pair[1].shape:
                yield pair


def between(one: Output, other: Output) -> float:
    """The largest `difference` of two outputs' tensors along a dimension; infinite if they are not alike."""
    return max((difference(*pair) for pair in pairs_of(one, other)), default=np.inf)


def by_axis(one: Output, other: Output) -> float:
    """The same along the dimension of each tensor in which it is least: that is the batch's."""
    pairs = zip(one, other, strict=False)
    found = [[difference(*pair) for pair in pairs_of([first], [second])] for first, second in pairs]
    return max((min(each) for each in found if each), default=np.inf)


def largest_error(output: Output, reference: Output) -> float | None:
    """The largest `relative_error` of an output's tensors; None if none can be compared."""
    errors = [relative_error(*pair) for pair in pairs_of(output, reference)]
    return max((error for error in errors if error is not None), default=None)
