"""Whether a network's output has the shape that it should have, and is computed from the inputs of each batch."""

import math
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from random import SystemRandom
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from accelbench.schema.text import beginning, message_of, one_line
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
WRONG_FROM, ROUNDED_WRONG_FROM = 1e-2, 0.5
# Two outputs are the same if they differ by less than this share of what they should differ by.
SAME = 0.01
MAX_SAME = 0.01  # error of two networks in the same precision: threads may add numbers up in another order
MAX_WHY = 200  # characters of an error in a warning
NUM_ROWS = 32  # rows of an output that are looked at
NUM_OTHERS = 8  # networks with other weights whose outputs are compared: whole numbers may be the same by chance
# What rounding explains is at most this many times the error of a new network that rounds as much. Where that is
# little, as in fp32, fast algorithms of convolutions may lose several times as much.
MAX_ROUNDING, MAX_ROUNDING_FP32 = 4.0, 10.0
MAX_ROW_NUMBERS = 1 << 22  # of all rows that are looked at: 32 MB

NOT_FINITE = "the output is not finite"
STALE = (
    "the output does not depend on the inputs: inputs that were never fed give the output of earlier ones, "
    "but another output in a newly built network"
)
OF_NEW = "the output differs by {:.1f} % from that of a newly built network with the same weights"
NOT_SAME, WRONG = f"{OF_NEW} in the same precision", f"{OF_NEW}, in fp32 on the CPU"
NOT_TIMED = "in a timed step the output was not that of the step's own inputs: it differs by {:.1f} % from it"
CONSTANT = (
    "the output is the same for all inputs, and with other weights too, so that nothing of the network need be "
    "computed: model.constant=true says that this is meant"
)
NOISE = "the output does not depend on the inputs: it is random"
NOT_COMPUTED = (
    "the output of a sample depends on its place in the batch, and {num} of the samples that were looked at have an "
    "output that is not computed from their own inputs"
)
NO_TENSOR = "the output holds no tensor that accelbench finds: return a tensor, a tuple, a mapping or a dataclass"
NO_ROWS = "no floating-point tensor of the output has the batch's size ({size}), so its values were not checked"
NOT_RUN = "the output was not compared with fp32's on the CPU, where the network fails ({why})"
NOT_IN_TIME = "the output was not compared with fp32's on the CPU, which takes too long for timeout_s"
# Notes: the network may be sound.
NOT_CHECKED = "so it was not checked that each batch is computed"
STATE = f"the same inputs give different outputs in two steps, {NOT_CHECKED}"
ANEW = "two newly built networks give different outputs, so the output was not compared with theirs"
NO_OTHERS = f"no inputs differ from those that were fed, {NOT_CHECKED}"
SAME_FOR_ALL = f"its weights make the output the same for all inputs, {NOT_CHECKED}"
IN_TRAINING = "it ran in training mode, so the output was not compared with that of a newly built network"
NOT_BY_ROW = "the output of a sample depends on its place in the batch"


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


def limit(precision: Precision) -> float:
    """The largest `output_error` that rounding in `precision` explains."""
    return MAX_ERROR if precision in PRECISE else MAX_ROUNDED_ERROR


def wrong(precision: Precision) -> float:
    """The `output_error` above which an output in `precision` is not that of the network."""
    return WRONG_FROM if precision in PRECISE else ROUNDED_WRONG_FROM


def first_rows(output: Output, num: int) -> Output:
    """The output with the first `num` of its rows."""
    return [OutputTensor(each.shape, {axis: rows[:num] for axis, rows in each.rows.items()}) for each in output]


def pairs_of(one: Output, other: Output) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    """The rows of two outputs' tensors along each dimension that may be the batch's in both: one, if sizes differ."""
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
    """The largest norm of a tensor's difference, over that of its reference; None if none can be compared."""
    pairs = [(rows, norm) for rows in pairs_of(output, reference) if (norm := float(np.linalg.norm(rows[1])))]
    errors = [float(np.linalg.norm(ours - theirs)) / norm for (ours, theirs), norm in pairs]
    return max((error for error in errors if math.isfinite(error)), default=None)


Result = TypeVar("Result")


class Outputs(NamedTuple):
    """What a network gave that was measured, for the same random rows of each batch."""

    inputs: tuple[Any, Any]  # a batch that it was fed, and one that it never was, which may share some samples
    inputs_of_rows: Callable[[Any, int], Sequence[Hashable]]  # what it gets for so many of the first rows of a batch
    size: int  # samples in the batches of the outputs
    shapes: Sequence[Shape] | None  # that the output, a single tensor, may have; None: any but one row for all samples
    fed: Output  # for the first of the inputs, after everything was measured
    unseen: Output  # for the second one
    timed: Output | None = None  # for the first one in a step that was timed
    moved: Output | None = None  # for the first one in another order, put back into its own
    num_changed: int = NUM_ROWS  # of the rows, how many have other inputs in the second batch, the first ones

    def differ(self, num: int) -> list[bool]:
        fed, unseen = (self.inputs_of_rows(each, num) for each in self.inputs)
        return [one != other for one, other in zip(fed, unseen, strict=True)]


class References(NamedTuple):
    """What the outputs are compared with."""

    # gives the outputs, for each of several batches in turn, of a newly built network with the same weights, or `other`
    # ones, in fp32 on the CPU, or in another `precision`; may raise anything, as NotInTimeError
    run: Callable[..., Sequence[Output]]
    same: Precision | None = None  # in which it rounds as what was measured does, on the same device
    # in which it rounds as much: of a cell in fp32, fp64, since the difference of the two is what rounding does
    rounded: Precision | None = None
    num_rows: int = NUM_ROWS  # how many of the outputs' rows it gives, the first ones
    same_random: bool = False  # whether a seed gives both networks the same random numbers
    constant: bool = False  # whether the user says that the output may be constant
    in_training: bool = False  # whether the network was measured in training mode, in which a new one does not run


@dataclass
class Findings:
    """What outputs show."""

    error: float | None = None  # how far the output is from the reference's (`largest_error`); None if unknown
    notes: list[str] = field(default_factory=list)  # what a reader of the cell's numbers may want to know
    warnings: list[str] = field(default_factory=list)  # what a reader should know
    defects: list[str] = field(default_factory=list)  # what makes the numbers wrong
    compared: int | None = None  # tensors of the output that were compared with the reference's; None if none were


def random_order(size: int) -> list[int]:
    """An order in which no row keeps its place: one that did would hide that the others are not computed."""
    rows = SystemRandom().sample(range(size), size)
    following = dict(zip(rows, [*rows[1:], rows[0]], strict=True))
    return [following[row] for row in range(size)]


def check(outputs: Outputs, precision: Precision, references: References) -> Findings:
    """Checks the outputs of the network that was measured."""
    if (problem := wrong_shape(outputs.fed, outputs.size, outputs.shapes)) is not None:
        return Findings(defects=[problem])
    if not outputs.fed:
        return Findings(defects=[NO_TENSOR])
    if not any(tensor.rows for tensor in outputs.fed):
        return Findings(warnings=[NO_ROWS.format(size=outputs.size)])
    if not all(np.isfinite(rows).all() for tensor in outputs.fed for rows in tensor.rows.values()):
        return Findings(defects=[NOT_FINITE])
    found = Findings()
    try:
        _compare(outputs, precision, references, found)
    except NotInTimeError:
        found.warnings.append(NOT_IN_TIME)
    except Exception as error:  # it may need its device, or batches of one size
        why = beginning(one_line(f"{type(error).__name__}: {message_of(error)}"), MAX_WHY)
        found.warnings.append(NOT_RUN.format(why=why))
    return found


def _compare(outputs: Outputs, precision: Precision, references: References, found: Findings) -> None:
    num = min(references.num_rows, outputs.num_changed)
    fed, unseen = first_rows(outputs.fed, num), first_rows(outputs.unseen, num)
    should_unseen, should_fed = references.run([outputs.inputs[1], outputs.inputs[0]])  # what it keeps shows in `fed`
    found.error = largest_error(fed, should_fed)
    error, most = max(largest_error(unseen, should_unseen) or 0.0, found.error or 0.0), limit(precision)
    moved, should_move = between(fed, unseen), between(should_fed, should_unseen)
    # With outputs that hardly move, an error within the limit may hide that they are kept.
    stuck, differ = moved <= SAME * should_move < np.inf, any(outputs.differ(num))
    kept = stuck and differ and should_move > most
    in_time = between(outputs.fed, outputs.timed) if outputs.timed is not None else 0.0
    found.compared = sum(bool(tensor.rows) for tensor in outputs.fed)
    wrong_text = _wrong(unseen, outputs, references, (should_unseen, should_fed), error, precision)
    if not differ:
        found.notes.append(NO_OTHERS)
    if kept or wrong_text or in_time > max(most, SAME * moved):
        reason = _unsteady(outputs, references, should_unseen, most, is_wrong=error > wrong(precision))
        if reason == NOISE and differ:
            found.defects.append(NOISE)
        elif reason is not None or (references.in_training and not kept):
            found.notes.append(STATE if reason == NOISE else reason or IN_TRAINING)
            found.compared, found.error = None, None if reason == ANEW else found.error
        elif kept or (error > most and differ and moved <= SAME * error):  # a new network may keep its output as well
            found.defects.append(STALE)
        else:
            found.defects.append(wrong_text or NOT_TIMED.format(100 * in_time))
    elif outputs.moved is not None and by_axis(outputs.fed, outputs.moved) > max(most, SAME * moved):
        if num := _num_not_computed(outputs):
            found.defects.append(NOT_COMPUTED.format(num=num))
        else:
            found.notes.append(NOT_BY_ROW)
    elif stuck and differ and not references.constant:
        never = should_move == 0.0 and _is_constant(outputs, references)
        (found.defects if never else found.notes).append(CONSTANT if never else SAME_FOR_ALL)


def _wrong(
    unseen: Output,
    outputs: Outputs,
    references: References,
    should: tuple[Output, Output],
    error: float,
    precision: Precision,
) -> str | None:
    in_fp32, num = WRONG.format(100 * error), min(references.num_rows, outputs.num_changed)
    if error > wrong(precision):
        return in_fp32
    if error > MAX_SAME and references.same is not None:  # rounding explains it, and so may something else
        (same,) = references.run([outputs.inputs[1]], precision=references.same)
        gap = largest_error(unseen, first_rows(same, num)) or 0.0
        return NOT_SAME.format(100 * gap) if gap > MAX_SAME else None
    if error <= limit(precision) or references.rounded is None:
        return None
    try:
        rounded = references.run([outputs.inputs[1], outputs.inputs[0]], precision=references.rounded)
    except NotInTimeError:
        raise
    except Exception:  # the network may not run in that precision on the CPU: then `wrong` alone decides
        return None
    errors = [largest_error(first_rows(one, num), its) for one, its in zip(rounded, should, strict=True)]
    explained = max((each for each in errors if each is not None), default=None)
    most = MAX_ROUNDING_FP32 if precision in PRECISE else MAX_ROUNDING
    return in_fp32 if explained is not None and error > most * explained else None


def _is_constant(outputs: Outputs, references: References) -> bool:
    """Whether networks with other weights give the same for all inputs too."""
    others = [references.run(outputs.inputs, other=True) for _ in range(NUM_OTHERS)]
    first, _ = others[0]
    is_whole = all((rows == np.round(rows)).all() for tensor in first for rows in tensor.rows.values())
    # Of whole numbers, such as classes, an honest network may give the same for all inputs, and another one others.
    is_same = not is_whole or all(between(first, fed) == 0.0 for fed, _ in others)
    return is_same and all(between(*pair) == 0.0 for pair in others)


def _unsteady(outputs: Outputs, references: References, known: Output, most: float, *, is_wrong: bool) -> str | None:
    """Why new networks can't say what the output should be; None if they can."""
    # `known` is what one of them gave for the unseen inputs. If not `is_wrong`, a timed step's output alone differs.
    fed, unseen = outputs.inputs
    first, _, third = references.run([unseen, fed, unseen])  # the third has the first one's random numbers
    if between(first, known) > most:
        return ANEW
    if between(first, third) > most:
        return STATE
    first, again = references.run([unseen, unseen])
    if between(first, again) <= most:
        return None
    (of_fed,) = references.run([fed])
    if between(first, of_fed) == 0.0:
        return NOISE
    return None if is_wrong and references.same_random else STATE


def _num_not_computed(outputs: Outputs) -> int:
    pairs = list(pairs_of(outputs.fed, outputs.unseen))
    num = min(len(fed) for fed, _ in pairs)
    still = [all(np.array_equal(fed[row], unseen[row]) for fed, unseen in pairs) for row in range(num)]
    different = {b"".join(fed[row].tobytes() for fed, _ in pairs) for row in range(num)}
    differ = outputs.differ(min(num, outputs.num_changed))
    num_still = sum(one and other for one, other in zip(still, differ, strict=False))
    return max(num_still, len(set(outputs.inputs_of_rows(outputs.inputs[0], num))) - len(different))


def batch_axes(shape: Shape, size: int) -> list[int]:
    """The dimensions of the batch's size; none if the tensor is one row for all samples."""
    return [] if _is_one_row(shape, size) else [axis for axis, length in enumerate(shape) if length == size]


def _is_one_row(shape: Shape, size: int) -> bool:
    # (1, batch, features), as a recurrent layer returns its last state, is no row.
    return size > 1 and shape[:1] == (1,) and (size not in shape or len(shape) == 2)


def wrong_shape(output: Output, size: int, shapes: Sequence[Shape] | None) -> str | None:
    """What is wrong with the shape of an output; None if nothing is."""
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


class NotInTimeError(Exception):
    """A call did not end in time."""


def in_time(call: Callable[[], Result], left_s: float) -> Result:
    """What `call` returns or raises, or a NotInTimeError after `left_s`: its thread is left behind."""
    found: Future[Result] = Future()

    def run() -> None:
        try:
            found.set_result(call())
        except BaseException as error:
            found.set_exception(error)

    if left_s > 0:
        threading.Thread(target=run, daemon=True).start()
        if wait([found], left_s).done:
            return found.result()
    raise NotInTimeError
