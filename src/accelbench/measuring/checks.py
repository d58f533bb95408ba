"""Checks the precision, the trained weights and the output of a cell. Also the number formats of each precision.

The checks find accidents, not code that cheats on purpose. If a check can prove that something is wrong, it reports a
defect, which makes the cell `invalid`. Otherwise, it reports a warning, and the numbers are published.
docs/measuring.md lists the checks.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from accelbench.devices import allocators
from accelbench.schema.cell import QUANTIZED, Precision
from accelbench.schema.text import beginning, message_of, one_line


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


# Format, by its name in NumPy -> significant bits.
BITS = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8, "int8": 7, "uint8": 8}
MIN_SHARE = 0.01  # share of the operations below which a format is not mentioned
# A check warns if more than this share of all trainable numbers do not change. A branch that the loss does not use is
# usually smaller.
MAX_UNCHANGED = 0.5
MAX_NAMED = 3  # layers named in a sentence
MAX_CYCLE = 64  # steps; nobody accumulates gradients over more
MAX_WHY = 200  # characters of an error in a sentence
PRECISE = (Precision.fp32, Precision.fp64)
# Relative errors up to these limits come from rounding. The first limit is for fp32 and fp64, the second for coarser
# formats.
MAX_ERROR, MAX_ROUNDED_ERROR = 1e-3, 0.1
# Rounding explains errors up to this many times the error of a new network that rounds like the cell. The factor for
# fp32 and fp64 is larger, because fast convolution algorithms lose several times as much precision.
MAX_ROUNDING, MAX_ROUNDING_FP32 = 4.0, 10.0
# Precision of a cell -> precision of the new network that shows the effect of rounding, if the two differ. No CPU has
# tf32, so bf16, which has fewer bits, replaces tf32. For fp32, the new network runs in fp64.
ROUNDS_ALIKE = {Precision.fp32: Precision.fp64, Precision.tf32: Precision.bf16_mixed}
MAX_UNEQUAL = 0.5  # share of whole numbers, such as predicted classes, that rounding may change
MAX_NUMBERS = 1 << 22  # numbers of a tensor that are compared
MAX_DRIFT = 1e-6  # largest difference of two outputs for the same batch, in fp32, if a network keeps no state

# Parts of messages.
# Beginnings of a sentence that ends with "not checked".
OUTPUT, WEIGHTS = "its output was", "its weights were"
NO_TENSOR = "accelbench found no tensor with numbers in the output"
UNSTEADY = (
    "two runs on the same batch differ: the network draws random numbers, reads a clock, or keeps a state"
)
NOT_IN_TIME = "a newly built network on the CPU takes too long for timeout_s"
NOT_UNSEEN = (
    "no new batch could be made for the check, so accelbench can't detect stored results of earlier batches"
)
WRONG = "the output for a new batch differs by {} from the output of a newly built network in fp32 on the CPU"
CONSTANT = "the output is the same for different inputs: if that is intended, set model.constant=true"

Result = TypeVar("Result")

# The tensors of a network's output, in order: arrays of float64 or of whole numbers (see `numbers_of`).
Output = Sequence[NDArray[Any]]
# (batch, seed of random numbers) -> output of a newly built network. With seed 0, the network starts from the state of
# the measured one. With another seed, it continues from the state after the last call.
NewNetwork = Callable[[Any, int], Output]
Builder = Callable[[Any, Precision], NewNetwork]  # (state, precision) -> a network that is built on the CPU


THREAD = ThreadPoolExecutor(1)  # computes the outputs of new networks


class NotInTimeError(Exception):
    """A call did not return in time."""


def in_time(call: Callable[[], Result], left_s: float) -> Result:
    """Runs `call` in a thread. Returns the result of `call`, or raises its exception.

    All calls run in one thread. In new threads, the first operators take long, so a network that computes for a fixed
    time would compute next to nothing.

    Raises NotInTimeError if `call` takes longer than `left_s` seconds. The thread then continues in the background.
    """
    if left_s > 0:
        outcome = THREAD.submit(call)
        if wait([outcome], left_s).done:
            return outcome.result()
    raise NotInTimeError


def numbers_of(array: NDArray[Any]) -> NDArray[Any]:
    """Copies numbers of a tensor for a comparison. From a large tensor, it copies every n-th number.

    The copy has at most `MAX_NUMBERS` elements. Integers and booleans keep their dtype. All other numbers are converted
    to float64, and a complex number to two numbers.
    """
    if array.size > MAX_NUMBERS:
        array = array.reshape(-1)[:: -(-array.size // MAX_NUMBERS)]
    if array.dtype.kind == "c":
        array = np.stack([array.real, array.imag], -1)
    is_whole = array.dtype.kind in "iub"  # not `!= "f"`: the kind of bfloat16 is "V"
    return array.astype(array.dtype if is_whole else np.float64, copy=True)


def difference(one: NDArray[Any], other: NDArray[Any]) -> float:
    """Returns the relative error of `one`: the norm of (one - other), divided by the norm of `other`.

    For whole numbers, returns the share of unequal numbers. Two numbers count as equal if neither is finite. If only
    one of two numbers is finite, the result is infinite.
    """
    if not one.size:
        return 0.0
    if one.dtype.kind != "f":
        return float(np.mean(one != other))
    in_neither = ~(np.isfinite(one) | np.isfinite(other))
    if in_neither.any():
        one, other = np.where(in_neither, 0.0, one), np.where(in_neither, 0.0, other)
    gap = float(np.linalg.norm(one - other))
    norm = float(np.linalg.norm(other))
    if not math.isfinite(gap):
        return math.inf
    if norm == 0.0:
        return 0.0 if gap == 0.0 else math.inf
    return gap / norm


def shapes_of(output: Output) -> list[tuple[int, ...]]:
    """The shape of each tensor."""
    return [array.shape for array in output]


def error_of(output: Output, reference: Output) -> float:
    """Returns the largest `difference` between the tensors of two outputs. Returns infinity if their shapes differ.

    Whole numbers, such as predicted classes, may differ because of rounding. Therefore the difference of two tensors of
    whole numbers counts as 0 if the share of unequal numbers is at most `MAX_UNEQUAL`.
    """
    if shapes_of(output) != shapes_of(reference):
        return math.inf
    error = 0.0
    for one, other in zip(output, reference, strict=True):
        gap = difference(one, other)
        if one.dtype.kind == "f" or gap > MAX_UNEQUAL:
            error = max(error, gap)
    return error


def limit(precision: Precision) -> float:
    """Returns the largest error that counts as rounding in `precision`. A larger error needs further checks."""
    return MAX_ERROR if precision in PRECISE else MAX_ROUNDED_ERROR


@dataclass
class ObservedOutput:
    """The output of the measured network for one batch. It comes from an additional step after all timing."""

    batch: Any
    output: Output
    is_unseen: bool = True  # whether the batch differs from all batches that were fed
    state: Any = None  # the state of the network before this step, for a newly built network
    # `state` without numbers and flags in attributes. Used if the new network fails or has another output with them.
    plain_state: Any = None
    # Some rows of the batch, and of the output; None if rows can't be taken.
    rows: tuple[Any, Output] | None = None
    fed: Any = None  # a batch that was fed; None if unknown
    output_of_fed: Output = ()  # the output of the last timed step


@dataclass
class Findings:
    """The result of a comparison with a newly built network."""

    error: float | None = None  # see `error_of`; None if the output could not be compared
    is_compared: bool = False
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    defects: list[str] = field(default_factory=list)

    def not_compared(self, why: str) -> None:
        self.error = None
        self.is_compared = False
        self.notes.append(f"the output was not compared with the output of a newly built network: {why}")


def compare(
    measured: ObservedOutput, new_network: Builder, precision: Precision, *, constant: bool = False
) -> Findings:
    """Compares the output of the measured network with the output of a newly built network.

    `new_network` builds a new network. If `constant` is true, the user has confirmed that the output may be the same
    for all inputs.
    """
    findings = Findings()
    fails = False
    try:
        if not _rows_agree(measured, new_network, precision, findings):
            _compare(measured, new_network, precision, findings)
        if not constant and measured.is_unseen and _is_same(measured.output, measured.output_of_fed):
            findings.warnings.append(CONSTANT)
    except NotInTimeError:
        findings.not_compared(NOT_IN_TIME)
    except Exception as error:  # the user's network may need its device, or batches of one size
        fails = True
        why = beginning(one_line(f"{type(error).__name__}: {message_of(error)}"), MAX_WHY)
        findings.not_compared(f"the new network fails on the CPU ({why})")
    if (fails or findings.defects) and measured.plain_state is not None:
        without = replace(measured, state=measured.plain_state, plain_state=None)
        return compare(without, new_network, precision, constant=constant)
    return findings


def _rows_agree(
    measured: ObservedOutput, new_network: Builder, precision: Precision, findings: Findings
) -> bool:
    """Returns True if the first and last row prove that the output is right. This saves a run of the whole batch."""
    if measured.rows is None or not measured.is_unseen:
        return False
    batch, output = measured.rows
    with suppress(Exception):  # the network may not accept another number of rows
        error = error_of(output, new_network(measured.state, Precision.fp32)(batch, 0))
        if error <= limit(precision):
            findings.error = error
            findings.is_compared = True
            return True
    return False


def _compare(
    measured: ObservedOutput, new_network: Builder, precision: Precision, findings: Findings
) -> None:
    """Compares the whole output with the output of a new network, and adds the result to `findings`."""
    output = measured.output
    if not any(array.size for array in output):
        findings.not_compared(NO_TENSOR)
        return
    reference = new_network(measured.state, Precision.fp32)(measured.batch, 0)
    findings.error = error_of(output, reference)
    findings.is_compared = True
    if not measured.is_unseen:
        findings.notes.append(NOT_UNSEEN)
    if findings.error <= limit(precision):
        return
    if not _is_steady(measured, new_network, reference):
        findings.not_compared(UNSTEADY)
        return
    if shapes_of(output) != shapes_of(reference):
        findings.not_compared("their structures differ")
        return
    is_finite = math.isfinite(findings.error)
    text = (
        f"{100 * findings.error:.1f} %" if is_finite else "values that are finite in only one of the outputs"
    )
    rounded = _rounded(measured, new_network, precision)
    factor = MAX_ROUNDING_FP32 if precision in PRECISE else MAX_ROUNDING
    if rounded is not None and findings.error > factor * error_of(rounded, reference):
        findings.defects.append(WRONG.format(text))
    else:
        findings.warnings.append(f"the output differs by {text} from the output in fp32 on the CPU")
    if not is_finite:
        findings.error = None


def _is_steady(measured: ObservedOutput, new_network: Builder, reference: Output) -> bool:
    """Returns True if the output of a new network depends on no random numbers, no earlier batches, and no clock."""
    again = new_network(measured.state, Precision.fp32)
    for seed in range(3):
        if error_of(again(measured.batch, seed), reference) > MAX_DRIFT:
            return False
        if measured.fed is not None:
            again(measured.fed, seed)
    return True


def _rounded(measured: ObservedOutput, new_network: Builder, precision: Precision) -> Output | None:
    """Returns the output of a new network that rounds like the cell. Returns None if the CPU lacks this precision."""
    if precision in QUANTIZED:
        return None
    try:
        return new_network(measured.state, ROUNDS_ALIKE.get(precision, precision))(measured.batch, 0)
    except NotInTimeError:
        raise
    except Exception:  # on the CPU, torch may lack operators for this format
        return None


def _is_same(one: Output, other: Output) -> bool:
    """Returns True if two outputs are equal. Whole numbers, such as predicted classes, may be equal by chance."""
    has_floats = any(array.dtype.kind == "f" and array.size for array in one)
    pairs = zip(one, other, strict=False)
    return (
        has_floats and shapes_of(one) == shapes_of(other) and all(difference(*pair) == 0.0 for pair in pairs)
    )


@dataclass
class Products:
    """The matrix products of a step, as they ran."""

    # format, by its name in NumPy -> operations of products whose first factor is in this format
    flops: dict[str, int] = field(default_factory=dict)
    # Library's name of a device -> operations on this device.
    devices: dict[str, int] = field(default_factory=dict)
    uncounted: set[str] = field(default_factory=set)  # operators that may be products, of an unknown size
    of: str = "matrix products"  # which products are counted, for messages: some engines count only a part

    def add(self, num: int, name: str, device: str) -> None:
        """Adds `num` operations in the format `name` on `device`."""
        self.flops[name] = self.flops.get(name, 0) + num
        self.devices[device] = self.devices.get(device, 0) + num

    @property
    def total(self) -> int:
        return sum(self.flops.values())

    def shares(self) -> dict[str, float]:
        """Format -> its share of the operations, the largest first."""
        formats = sorted(self.flops, key=self.flops.__getitem__, reverse=True)
        return {name: self.flops[name] / self.total for name in formats if self.flops[name]}

    def ran_in(self, expected: str) -> str | None:
        """Returns the format in which the step computed. Returns None if the step had no matrix products.

        The result is the format of most operations in two cases: this format is coarser than `expected`, or the share
        of `expected` is below `MIN_SHARE`. In all other cases, the result is `expected`.
        """
        shares = self.shares()
        if not shares:
            return None
        most = next(iter(shares))
        is_coarser = BITS.get(most, 0) < BITS[expected]
        return most if is_coarser or shares.get(expected, 0.0) < MIN_SHARE else expected

    def coarser(self, expected: str) -> Iterator[str]:
        """Yields sentences about operations that ran in a coarser format than `expected`."""
        for name, share in self.shares().items():
            if share >= MIN_SHARE and BITS.get(name, 0) < BITS[expected]:
                yield f"{100 * share:.0f} % of the operations of {self.of} ran in {name}, not in {expected}"


# Name of a tensor -> its norm in fp64. The norm is not finite if a number of the tensor is not.
Norms = Mapping[str, float]


@dataclass
class Training:
    """Observations of a network in training. `names` are the names of its trainable tensors."""

    names: Sequence[str] = ()  # the tensors that were trainable before the first step
    before: Norms = field(default_factory=dict)  # their norms at the start of the steady state
    after: Norms = field(default_factory=dict)  # their norms at the end of the steady state
    num_steps: int = MAX_CYCLE  # steps between `before` and `after`
    cycle: int = 1  # steps over which gradients are accumulated, at most
    vanished: bool = False  # whether there are gradients, and all of them are 0
    sizes: Mapping[str, int] = field(default_factory=dict)  # name of a tensor -> how many numbers it has
    evaluating: Sequence[str] = ()  # layers in evaluation mode that have trainable weights or dropout
    # Whether weights have 16 bits, so that rounding may swallow the optimiser's steps.
    is_coarse: bool = False

    @property
    def changed(self) -> list[str]:
        """The names of tensors that changed, or that have infinite numbers or NaN.

        An optimiser's step leaves infinite numbers and NaN as they are. Equal ones do not show that no step ran.
        """
        norms = [(name, self.before.get(name), self.after[name]) for name in self.names if name in self.after]
        return [name for name, before, after in norms if before != after or not math.isfinite(after)]

    @property
    def is_observed(self) -> bool:
        return bool(self.before and self.after) and (bool(self.changed) or self.num_steps >= self.cycle)

    def defects(self) -> Iterator[str]:
        if self.is_observed and not self.changed and not (self.is_coarse or self.vanished):
            yield "nothing was trained: no trainable weight changed in the measured steps"

    def warnings(self) -> Iterator[str]:
        changed = self.changed
        still = [name for name in self.names if name not in changed]
        num_still = sum(self.sizes.get(name, 0) for name in still)
        if self.before and self.after and not self.is_observed:
            yield f"no weight changed in {self.num_steps} steps: gradients may be accumulated over more steps than that"
        elif not changed and self.vanished:
            yield "no trainable weight changed: all gradients are 0, as if the loss were at its minimum"
        elif not changed and self.is_observed and self.is_coarse:
            yield "no trainable weight changed: rounding to 16 bits may swallow the optimiser's steps"
        elif changed and not self.is_coarse and num_still > MAX_UNCHANGED * sum(self.sizes.values()):
            yield f"these weights did not change during training: {self._named(still)}"
        if bad := [name for name, norm in self.after.items() if not math.isfinite(norm)]:
            yield f"after training, weights are not finite: {self._named(bad)}"
        if self.evaluating:
            yield f"layers in evaluation mode during training: {', '.join(self.evaluating[:MAX_NAMED])}"

    def _named(self, names: Sequence[str]) -> str:
        more = f", and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
        return f"{len(names)} of {len(self.names)} tensors ({', '.join(names[:MAX_NAMED])}{more})"


@dataclass
class Observations:
    """Everything that an engine observed of a cell, except its times. By default, nothing was observed."""

    products: Products = field(default_factory=Products)  # the matrix products of one step
    training: Training = field(default_factory=Training)  # the weights
    in_training_mode: Sequence[str] = ()  # layers in training mode in inference
    unchecked: dict[str, str] = field(default_factory=dict)  # what was not checked -> why
    checks_s: float = 0.0  # seconds of all checks

    @contextmanager
    def checking(self, what: str = OUTPUT) -> Iterator[None]:
        """A context in which `what` is checked. Adds the duration of the check to `checks_s`.

        If the check raises an exception, for example in the user's code, suppresses it and records it in `unchecked`.
        """
        start = time.perf_counter()
        try:
            # The blocks that the check frees would make later steps faster.
            with allocators.thresholds_kept():
                yield
        except Exception as error:
            self.unchecked[what] = beginning(one_line(message_of(error)), MAX_WHY)
        finally:
            self.checks_s += time.perf_counter() - start

    def warnings(self, expected: str) -> Iterator[str]:
        """Yields warnings as sentences. `expected` is the format in which the cell should compute."""
        for what, why in self.unchecked.items():
            yield f"{what} not checked: {why}"
        yield from self.training.warnings()
        yield from self.products.coarser(expected)
        if layers := self.in_training_mode:
            yield f"layers in training mode during inference: {', '.join(layers[:MAX_NAMED])}"
