"""Whether a network's output has the shape that it should have, and is computed from the inputs of each batch."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accelbench.measuring.in_time import NotInTimeError
from accelbench.measuring.output_error import limit, relative_error
from accelbench.schema.text import beginning, message_of, one_line
from accelbench.schema.vocab import Precision

Shape = tuple[int, ...]
# Two outputs are the same if they differ by less than this share of what they should differ by.
SAME = 0.01
MAX_DIFFERENCE = 2.0  # of two outputs: see `difference`
# A state is what changes the output for the same inputs by more than this share of what other inputs change.
MAX_STATE = 0.1
MAX_WHY = 200  # characters of an error in a warning

NOT_FINITE = "the output is not finite"
STALE = (
    "the output does not depend on the inputs: inputs that were never fed give the output of earlier ones, "
    "but another output in a newly built network"
)
NO_BATCH = "no tensor of the output has a dimension of the batch's size ({size}), so its values were not checked"
NOT_FLOAT = "no floating-point tensor of the output has the batch's size, so its values were not checked"
NOT_RUN = "the output was not compared with fp32's on the CPU, where the network fails ({why})"
NOT_IN_TIME = "the output was not compared with fp32's on the CPU, which takes too long for timeout_s"
STATE = "the same inputs give different outputs in two steps, so it was not checked that each batch is computed"
CONSTANT = "different inputs give the same output, so it was not checked that each batch is computed"


@dataclass(frozen=True)
class OutputTensor:
    """One tensor of a network's output for a batch.

    Attributes:
        shape: of the tensor.
        rows: for each dimension that may be the batch's (`batch_axes`): the values for the samples that are compared,
            float64, one row per sample. Empty if they are no floating-point numbers. Which dimension it is shows in the
            output for a batch of another size.
    """

    shape: Shape
    rows: Mapping[int, NDArray[Any]] = field(default_factory=dict)


# All tensors of a network's output, in order.
Output = Sequence[OutputTensor]
# Gives the outputs, for each of several batches in turn, of one network that is built when this is called.
RunReference = Callable[[Sequence[Any]], Sequence[Output]]


class Outputs(NamedTuple):
    """What a network gave after it was measured.

    Attributes:
        inputs: inputs that it was fed before, and inputs that it never was, as `RunReference` takes them.
        size: samples in the batches of the outputs.
        shapes: the shapes that the output, a single tensor, may have; None: any that is not one row for all samples.
        fed, unseen: the outputs for the two kinds of inputs.
        again: the output for the first kind, after the other two.
    """

    inputs: tuple[Any, Any]
    size: int
    shapes: Sequence[Shape] | None
    fed: Output
    unseen: Output
    again: Output


@dataclass
class Findings:
    """What outputs show.

    Attributes:
        error: how far the output is from the reference's (`relative_error`); None if unknown.
        warnings: what a reader of the cell's numbers should know.
        defects: what makes them wrong.
    """

    error: float | None = None
    warnings: list[str] = field(default_factory=list)
    defects: list[str] = field(default_factory=list)


def check(outputs: Outputs, precision: Precision, run_reference: RunReference, *, is_reference: bool) -> Findings:
    """Checks the outputs of the network that was measured.

    Args:
        outputs: of that network.
        precision: that it computes in.
        run_reference: runs newly built networks with the same weights, in fp32 on the CPU. It may raise anything;
            `in_time.NotInTimeError` if it takes too long.
        is_reference: whether the network itself is such a network, so that no error is computed.
    """
    if (problem := wrong_shape(outputs.fed, outputs.size, outputs.shapes)) is not None:
        return Findings(defects=[problem])
    index = compared(outputs.fed)
    if index is None:
        has_batch = any(batch_axes(tensor.shape, outputs.size) for tensor in outputs.fed)
        return Findings(warnings=[NOT_FLOAT if has_batch else NO_BATCH.format(size=outputs.size)])
    if not all(np.isfinite(rows).all() for rows in outputs.fed[index].rows.values()):
        return Findings(defects=[NOT_FINITE])
    found = Findings()
    try:
        _check_dependence(outputs, index, precision, run_reference, found)
        if not is_reference:
            (expected,) = run_reference([outputs.inputs[0]])
            found.error = next((relative_error(*pair) for pair in _pairs(outputs.fed, expected, index)), None)
    except NotInTimeError:
        found.warnings.append(NOT_IN_TIME)
    except Exception as error:  # it may need its device, or batches of one size
        why = beginning(one_line(f"{type(error).__name__}: {message_of(error)}"), MAX_WHY)
        found.warnings.append(NOT_RUN.format(why=why))
    return found


def _check_dependence(
    outputs: Outputs, index: int, precision: Precision, run_reference: RunReference, found: Findings
) -> None:
    """Finds whether the output is computed from the inputs of each batch, or kept from an earlier one.

    The reference runs only if the outputs are nearly the same.
    """
    moved = _between(outputs.fed, outputs.unseen, index)
    if _between(outputs.fed, outputs.again, index) > min(limit(precision), MAX_STATE * moved):
        found.warnings.append(STATE)
        return
    if moved > SAME * MAX_DIFFERENCE:
        return
    fed, unseen = outputs.inputs
    # Networks of their own: a network that keeps its first output must not have seen the other inputs.
    (first, again), (anew,), (other,) = (run_reference(batches) for batches in ([fed, fed], [fed], [unseen]))
    should_move = _between(first, other, index)
    if moved > SAME * should_move:
        return
    if should_move <= limit(precision) or should_move == np.inf:
        found.warnings.append(CONSTANT)
    elif max(_between(first, again, index), _between(first, anew, index)) > limit(precision):
        found.warnings.append(STATE)
    else:
        found.defects.append(STALE)


def batch_axes(shape: Shape, size: int) -> list[int]:
    """The dimensions of the batch's size; none if the tensor is one row for all samples."""
    return [] if _is_one_row(shape, size) else [axis for axis, length in enumerate(shape) if length == size]


def _is_one_row(shape: Shape, size: int) -> bool:
    # (1, batch, features), as a recurrent layer returns its last state, is no row.
    return size > 1 and shape[:1] == (1,) and (size not in shape or len(shape) == 2)


def wrong_shape(output: Output, size: int, shapes: Sequence[Shape] | None) -> str | None:
    """What is wrong with the shape of an output; None if nothing is. The arguments are those of `Outputs`."""
    found = [tensor.shape for tensor in output]
    gave = ", ".join(map(str, found)) or "no tensor"
    if shapes is not None:
        right = len(found) == 1 and found[0] in shapes
        allowed = " or ".join(map(str, shapes))
        return None if right else f"the output is {gave}, not {allowed}: see model.num_classes and model.output"
    if any(batch_axes(shape, size) for shape in found):
        return None
    one_row = any(_is_one_row(shape, size) for shape in found)
    return f"the output is {gave}: one row, not one for each of the batch's {size} samples" if one_row else None


def compared(output: Output) -> int | None:
    """The index of the tensor that is compared: the first with `rows`; None if there is none."""
    return next((index for index, tensor in enumerate(output) if tensor.rows), None)


def difference(one: NDArray[Any], other: NDArray[Any]) -> float:
    """The norm of the difference over the larger norm, 0 to `MAX_DIFFERENCE`; infinite if a value is not finite.

    The shapes are the same.
    """
    if not (np.isfinite(one).all() and np.isfinite(other).all()):
        return np.inf
    norm = max(float(np.linalg.norm(one)), float(np.linalg.norm(other)))
    return float(np.linalg.norm(one - other)) / norm if norm else 0.0


def _pairs(one: Output, other: Output, index: int) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    """The rows of two outputs' tensors along each dimension that may be the batch's in both, and that makes them alike.

    With outputs for batches of two sizes that is one dimension, the batch's. With outputs for one size there may be
    several: then all of them show whether the outputs are the same.
    """
    if index < min(len(one), len(other)):
        first, second = one[index].rows, other[index].rows
        for axis in first.keys() & second.keys():
            if first[axis].shape == second[axis].shape:
                yield first[axis], second[axis]


def _between(one: Output, other: Output, index: int) -> float:
    """The largest `difference` of two outputs' tensors along a dimension; infinite if they are not alike."""
    return max((difference(*pair) for pair in _pairs(one, other, index)), default=np.inf)
