"""What is checked of a cell beside its times: the precision, the weights in training, and the output.

Accidents are found; code that cheats on purpose is out of scope. A defect makes a cell `invalid`, and needs a proof.
All else is a warning on a number that is published. docs/measuring.md has the table.
"""

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from accelbench.devices import malloc_thresholds
from accelbench.schema.measurement import Check
from accelbench.schema.text import beginning, message_of, one_line
from accelbench.schema.vocab import QUANTIZED, Precision, Promise

# NumPy's names of formats -> significant bits.
BITS = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8, "int8": 7, "uint8": 8}
MIN_SHARE = 0.01  # of the operations: below it, a format is not worth a word
MAX_UNUSED = 0.01  # of all trainable numbers: fewer that have a gradient and do not change are not worth a warning
MAX_WITHOUT = 0.5  # of all trainable numbers: a branch that the loss does not use is smaller
MAX_NAMED = 3  # layers in a sentence
MAX_CYCLE = 64  # steps without a change of any weight that nobody accumulates gradients over
MAX_WHY = 200  # characters of an error in a sentence
PRECISE = (Precision.fp32, Precision.fp64)
# Relative errors up to these are what rounding does: in fp32 and fp64, and in all coarser formats.
MAX_ERROR, MAX_ROUNDED_ERROR = 1e-3, 0.1
# Relative errors above these are wrong where nothing shows how much rounding does: an output that has nothing to do
# with the reference has an error of 1 to 1.4.
WRONG_FROM, ROUNDED_WRONG_FROM = 1e-2, 0.5
# Rounding explains so many times the error of a new network that rounds as much. In fp32 that is little, and fast
# algorithms of convolutions lose several times as much.
MAX_ROUNDING, MAX_ROUNDING_FP32 = 4.0, 10.0
# In which a new network rounds as a cell does, if not in its precision. No CPU has tf32: bf16 rounds to fewer bits.
ROUNDS_ALIKE = {Precision.fp32: Precision.fp64, Precision.tf32: Precision.bf16_mixed}
MAX_UNEQUAL = 0.5  # share of whole numbers, such as predicted classes: rounding may change so many
NUM_OTHERS = 8  # other weights of a network whose outputs are whole numbers, which are the same by chance
MAX_NUMBERS = 1 << 22  # of a tensor that are compared
MAX_DRIFT = 1e-6  # of the output of a network in fp32 that keeps no state, for the same batch

# What was compared.
WHOLE = "all of it, beside that of a newly built network in fp32"
ROWS = "the first and last rows, beside those of a newly built network in fp32"
OUTPUT, WEIGHTS = "its output was", "its weights were"  # in a sentence about what was not checked
NO_TENSOR = "it holds no tensor with numbers that accelbench finds"
UNSTEADY = "two runs for the same batch differ: the network draws numbers, reads a clock, or keeps a state"
NOT_IN_TIME = "a newly built network on the CPU takes too long for timeout_s"
NOT_UNSEEN = "no batch was found that was never fed, so a result kept from an earlier batch would not show"
WRONG = "the output for a batch that was never fed differs by {} from that of a newly built network in fp32 on the CPU"
SHAPES = "the output has another structure than that of a newly built network: {} instead of {}"
CONSTANT = (
    "the output is the same for different inputs, whatever the weights are: model.constant=true confirms that this is "
    "meant"
)
SAME_FOR_ALL = "with its present weights the output is the same for different inputs"

Result = TypeVar("Result")

# All tensors of a network's output, in their order, or numbers of them: float64, or whole numbers.
Output = Sequence[NDArray[Any]]
# (batch, seed of random numbers) -> a newly built network's output: with seed 0 from the state that the measured one
# had, with other seeds from the state that the call before left.
NewNetwork = Callable[[Any, int], Output]


class NotInTimeError(Exception):
    """A call did not end in time."""


def in_time(call: Callable[[], Result], left_s: float) -> Result:
    """What `call` returns or raises, or a NotInTimeError after `left_s`: its thread is left behind."""
    outcome: Future[Result] = Future()

    def run() -> None:
        try:
            outcome.set_result(call())
        except BaseException as error:
            outcome.set_exception(error)

    if left_s > 0:
        threading.Thread(target=run, daemon=True).start()
        if wait([outcome], left_s).done:
            return outcome.result()
    raise NotInTimeError


def numbers_of(array: NDArray[Any]) -> NDArray[Any]:
    """What is compared of a tensor: float64 or whole numbers, at most `MAX_NUMBERS` of them, evenly spread."""
    if array.size > MAX_NUMBERS:
        array = array.reshape(-1)[:: -(-array.size // MAX_NUMBERS)]
    if array.dtype.kind == "c":
        array = np.stack([array.real, array.imag], -1)
    is_whole = array.dtype.kind in "iub"  # bfloat16 is of no kind of NumPy's own
    return array.astype(array.dtype if is_whole else np.float64, copy=True)


def difference(one: NDArray[Any], other: NDArray[Any]) -> float:
    """The norm of the difference over the norm of `other`; of whole numbers, the share of unequal ones.

    Places that are not finite in both are equal. Infinite if a place is finite in one only.
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
    """The largest `difference` of two tensors; infinite if their shapes differ."""
    if shapes_of(output) != shapes_of(reference):
        return math.inf
    error = 0.0
    for one, other in zip(output, reference, strict=True):
        gap = difference(one, other)
        if one.dtype.kind == "f" or gap > MAX_UNEQUAL:
            error = max(error, gap)
    return error


def limit(precision: Precision) -> float:
    """The largest error that rounding in `precision` explains without a further look."""
    return MAX_ERROR if precision in PRECISE else MAX_ROUNDED_ERROR


@dataclass
class Measured:
    """What the measured network gave for a batch, in a further step after everything was timed."""

    batch: Any
    output: Output
    is_unseen: bool = True  # whether the batch differs from all that were fed
    state: Any = None  # what a newly built network gets, for the same output
    counted: Any = None  # the same with what the code counts and notes, such as the batches so far; None if unknown
    rows: tuple[Any, Output] | None = None  # some rows of the batch, and those of the output, if it can be taken apart
    fed: Any = None  # a batch that was fed; None if none is known
    output_of_fed: Output = ()  # of the last timed step, for whichever batch that had
    again: Callable[[], Output] | None = None  # what a further step gives for the same batch; None if unknown


@dataclass
class Findings:
    """What a comparison with a newly built network shows."""

    error: float | None = None  # how far the output is from the reference's; None if it could not be compared
    observed: str | None = None  # what was compared; None if nothing was
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    defects: list[str] = field(default_factory=list)

    def not_compared(self, why: str) -> None:
        self.error = self.observed = None
        self.notes.append(f"the output was not compared with that of a newly built network: {why}")


def compare(
    measured: Measured, new_network: Callable[..., NewNetwork], precision: Precision, *, constant: bool = False
) -> Findings:
    """Compares an output with that of a network that `new_network(state, precision, other=...)` builds on the CPU.

    `other`: with other weights. `constant`: the user confirms that the output may be the same for all inputs.
    """
    findings = Findings()
    try:
        if not _rows_agree(measured, new_network, precision, findings):
            _compare(measured, new_network, precision, findings)
        if not constant and measured.is_unseen and _is_same(measured.output, measured.output_of_fed):
            _look_at_constant(measured, new_network, findings)
    except NotInTimeError:
        findings.not_compared(NOT_IN_TIME)
    except Exception as error:  # it may need its device, or batches of one size
        why = beginning(one_line(f"{type(error).__name__}: {message_of(error)}"), MAX_WHY)
        findings.not_compared(f"that fails on the CPU ({why})")
    return findings


def _rows_agree(
    measured: Measured, new_network: Callable[..., NewNetwork], precision: Precision, findings: Findings
) -> bool:
    """Whether a few rows, which take less time than a whole batch, show that the output is right."""
    if measured.rows is None or not measured.is_unseen:
        return False
    batch, output = measured.rows
    with suppress(Exception):  # the network may take no other number of rows
        error = error_of(output, new_network(measured.state, Precision.fp32)(batch, 0))
        if error <= limit(precision):
            findings.error, findings.observed = error, ROWS
            return True
    return False


def _compare(
    measured: Measured, new_network: Callable[..., NewNetwork], precision: Precision, findings: Findings
) -> None:
    output = measured.output
    if not _has_numbers(output):
        findings.not_compared(NO_TENSOR)
        return
    measured, reference = _with_reference(measured, new_network, precision)
    findings.error = error_of(output, reference)
    findings.observed = WHOLE
    if not measured.is_unseen:
        findings.notes.append(NOT_UNSEEN)
    if findings.error <= limit(precision):
        return
    if not _is_steady(measured, new_network, reference):
        findings.not_compared(UNSTEADY)
        return
    rounded = _rounded(measured, new_network, precision)
    if shapes_of(output) != shapes_of(reference):
        if rounded is None or shapes_of(rounded) == shapes_of(reference):
            findings.warnings.append(SHAPES.format(shapes_of(output), shapes_of(reference)))
        findings.not_compared("their structures differ")
        return
    explained = None if rounded is None else error_of(rounded, reference)
    is_finite = math.isfinite(findings.error)
    text = f"{100 * findings.error:.1f} %" if is_finite else "places that are not finite in one only"
    if findings.error > _most(explained, precision):
        if is_finite and _differs_from_itself(measured, precision):
            findings.warnings.append(
                f"the output differs from fp32's on the CPU by {text}, and from its own, run again"
            )
        else:
            findings.defects.append(WRONG.format(text))
    else:
        findings.warnings.append(f"the output differs from fp32's on the CPU by {text}")
    if not is_finite:
        findings.error = None


def _with_reference(
    measured: Measured, new_network: Callable[..., NewNetwork], precision: Precision
) -> tuple[Measured, Output]:
    """What was measured, with what the code counts if an output depends on that; and a new network's output."""
    reference = new_network(measured.state, Precision.fp32)(measured.batch, 0)
    if error_of(measured.output, reference) > limit(precision) and measured.counted is not None:
        with suppress(Exception):  # a count may go with tensors that a new network has not
            other = new_network(measured.counted, Precision.fp32)(measured.batch, 0)
            if error_of(other, reference) > MAX_DRIFT:
                return replace(measured, state=measured.counted), other
    return measured, reference


def _is_steady(measured: Measured, new_network: Callable[..., NewNetwork], reference: Output) -> bool:
    """Whether new networks agree, although their random numbers differ, and another batch comes between."""
    again = new_network(measured.state, Precision.fp32)
    for seed in range(3):
        if error_of(again(measured.batch, seed), reference) > MAX_DRIFT:
            return False
        if measured.fed is not None:
            again(measured.fed, seed)
    return True


def _differs_from_itself(measured: Measured, precision: Precision) -> bool:
    """Whether a further step gives another output, as of a network that computes for some time on a busy machine."""
    if measured.again is None:
        return False
    with suppress(Exception):
        drift = error_of(measured.again(), measured.output)
        return math.isfinite(drift) and drift > limit(precision)
    return False


def _rounded(measured: Measured, new_network: Callable[..., NewNetwork], precision: Precision) -> Output | None:
    """The output of a new network that rounds as the cell does; None if there is none on a CPU."""
    if precision in QUANTIZED:
        return None
    try:
        return new_network(measured.state, ROUNDS_ALIKE.get(precision, precision))(measured.batch, 0)
    except NotInTimeError:
        raise
    except Exception:  # torch may not have its operators in that format on the CPU
        return None


def _most(explained: float | None, precision: Precision) -> float:
    """The largest error that rounding explains, if it makes one of `explained` on the CPU."""
    if explained is None:
        return WRONG_FROM if precision in PRECISE else ROUNDED_WRONG_FROM
    return (MAX_ROUNDING_FP32 if precision in PRECISE else MAX_ROUNDING) * explained


def _has_numbers(output: Output) -> bool:
    return any(array.size for array in output)


def _is_same(one: Output, other: Output) -> bool:
    pairs = zip(one, other, strict=False)
    return _has_numbers(one) and shapes_of(one) == shapes_of(other) and all(difference(*pair) == 0.0 for pair in pairs)


def _look_at_constant(measured: Measured, new_network: Callable[..., NewNetwork], findings: Findings) -> None:
    """Notes whether other weights make an output that is the same for all inputs depend on them."""
    if measured.fed is None:
        return
    is_whole = all(array.dtype.kind != "f" for array in measured.output)
    for _ in range(NUM_OTHERS if is_whole else 1):
        other = new_network(measured.state, Precision.fp32, other=True)
        if not _is_same(other(measured.batch, 0), other(measured.fed, 0)):
            findings.notes.append(SAME_FOR_ALL)
            return
    findings.warnings.append(CONSTANT)


@dataclass
class Products:
    """The matrix products of a step, as they ran."""

    # format, by NumPy's name -> floating-point operations whose first factor is in it
    flops: dict[str, int] = field(default_factory=dict)
    devices: dict[str, int] = field(default_factory=dict)  # the same by the library's name of their device
    uncounted: set[str] = field(default_factory=set)  # operators that may be products of an unknown size
    of: str = "matrix products"  # whose operations they are: an engine may know less than those of all products
    in_other_threads: bool = False  # whether layers ran in threads where their operators were not seen

    @property
    def total(self) -> int:
        return sum(self.flops.values())

    def shares(self) -> dict[str, float]:
        """The share of the operations in each format, the largest first."""
        formats = sorted(self.flops, key=self.flops.__getitem__, reverse=True)
        return {name: self.flops[name] / self.total for name in formats if self.flops[name]}

    def ran_in(self, asked: str) -> str | None:
        """The format that a step computed in: as asked, unless most of it is coarser, or next to none of it is so."""
        shares = self.shares()
        if not shares:
            return None
        most = next(iter(shares))
        is_coarser = BITS.get(most, 0) < BITS[asked]
        return most if is_coarser or shares.get(asked, 0.0) < MIN_SHARE else asked

    def others(self, asked: str, *, coarser: bool) -> Iterator[str]:
        """Sentences about operations in a coarser format than was asked for, or in a finer one, perhaps on purpose."""
        for name, share in self.shares().items():
            is_coarser = BITS.get(name, 0) < BITS[asked]
            if name != asked and share >= MIN_SHARE and is_coarser == coarser:
                yield f"{100 * share:.0f} % of the operations of {self.of} ran in {name}, not in {asked}"

    def check(self) -> Check:
        if not self.total or self.in_other_threads:
            return Check(promise=Promise.precision)
        formats = ", ".join(f"{100 * share:.3g} % in {name}" for name, share in self.shares().items())
        share = None if self.uncounted else 1.0
        return Check(promise=Promise.precision, observed=f"{self.of} of one step: {formats}", share=share)


class State(NamedTuple):
    """The numbers of one tensor."""

    checksum: int  # of all its bits
    is_finite: bool  # whether all its numbers are


States = Mapping[str, State]


@dataclass
class Training:
    """What was seen of a network while it trained. The names are those of its trainable tensors."""

    names: Sequence[str] = ()  # the tensors that were trainable when the first step began
    before: States = field(default_factory=dict)  # their states when the steady state began
    after: States = field(default_factory=dict)  # the same when it ended
    num_steps: int = MAX_CYCLE  # steps between the two
    cycle: int | None = 1  # steps whose gradients make one change of weights; None if the user's code decides that
    gradients: set[str] | None = None  # tensors whose gradient was not 0 after the last step; None if unknown
    vanished: bool = False  # whether there are gradients, and all are 0
    sizes: Mapping[str, int] = field(default_factory=dict)  # how many numbers each tensor has
    learning_rates: Sequence[float] = ()  # of the optimisers; empty if unknown
    evaluating: Sequence[str] = ()  # layers that were in evaluation mode and have something to train or to drop
    is_coarse: bool = False  # whether the weights are of 16 bits, so that rounding may swallow a step of the optimiser

    @property
    def changed(self) -> list[str]:
        """Those that differ; numbers that are not finite can change no more."""
        states = [(name, self.before.get(name), self.after[name]) for name in self.names if name in self.after]
        return [name for name, before, after in states if before != after or not after.is_finite]

    @property
    def is_observed(self) -> bool:
        is_due = self.num_steps >= (self.cycle or MAX_CYCLE)
        return bool(self.before and self.after) and (bool(self.changed) or is_due)

    @property
    def _is_unknown(self) -> bool:
        return bool(self.names and self.before and self.after) and not self.is_observed

    def defects(self) -> Iterator[str]:
        if self.is_observed and not self.changed and not (self.is_coarse or self.vanished):
            yield f"nothing was trained: no trainable weight changed in the measured steps{self._why()}"

    def _why(self) -> str:
        if self.learning_rates and not any(self.learning_rates):
            return " (the learning rate is 0)"
        if self.gradients is None:
            return ""
        if not self.gradients:
            return " (they have no gradients)"
        return " (they have gradients: the optimiser holds others, or never steps)"

    def warnings(self) -> Iterator[str]:
        still = [name for name in self.names if name not in self.changed]
        if self.is_observed and not self.changed and self.vanished:
            yield "no trainable weight changed: their gradients are 0, as where a loss has reached its least"
        elif self.is_observed and not self.changed and self.is_coarse:
            yield "no trainable weight changed: rounding to 16 bits may swallow the optimiser's steps"
        elif self.is_observed and still and self._is_worth_it(still):
            yield f"weights that did not change while it trained: {self._named(still)}"
        if bad := [name for name, state in self.after.items() if not state.is_finite]:
            yield f"after training, weights are not finite: {self._named(bad)}"
        if self.cycle is None and self._is_unknown:
            yield f"no weight changed in {self.num_steps} steps"
        if self.evaluating:
            yield f"in evaluation mode, although it trains: {', '.join(self.evaluating[:MAX_NAMED])}"

    def _is_worth_it(self, still: Sequence[str]) -> bool:
        """Whether so many numbers have a gradient, or an unknown one, and did not change, or have never any."""
        if self.is_coarse:
            return False
        if not self.sizes:
            return True
        total = sum(self.sizes.values())
        due = [name for name in still if self.gradients is None or name in self.gradients]
        num_due, num_still = (sum(self.sizes[name] for name in names) for names in (due, still))
        return num_due > MAX_UNUSED * total or num_still > MAX_WITHOUT * total

    def notes(self) -> Iterator[str]:
        if self.cycle is not None and self._is_unknown:
            yield f"no weight changed in {self.num_steps} steps, over more of which gradients may be accumulated"

    def check(self) -> Check:
        if not self.is_observed:
            return Check(promise=Promise.training)
        observed = f"{len(self.changed)} of {len(self.names)} trainable tensors changed in the steady state"
        return Check(promise=Promise.training, observed=observed, share=1.0)

    def _named(self, names: Sequence[str]) -> str:
        more = f", and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
        return f"{len(names)} of {len(self.names)} tensors ({', '.join(names[:MAX_NAMED])}{more})"


@dataclass
class Observations:
    """What an engine observed of a cell beside its times. What it could not look at stays as it is here."""

    products: Products = field(default_factory=Products)  # the matrix products of one step
    training: Training = field(default_factory=Training)  # the weights
    # layers that were in training mode in inference: those that drop at random, perhaps on purpose, and others
    modes: tuple[Sequence[str], Sequence[str]] = ((), ())
    unchecked: dict[str, str] = field(default_factory=dict)  # what was not checked -> why
    checks_s: float = 0.0  # how long the checks took

    @contextmanager
    def checking(self, what: str = OUTPUT) -> Iterator[None]:
        """Adds the time of a check to `checks_s`. If it fails, which the user's code may cause, it notes why."""
        start = time.perf_counter()
        try:
            with malloc_thresholds.kept():  # the blocks that the check frees would make later steps faster
                yield
        except Exception as error:
            self.unchecked[what] = beginning(one_line(message_of(error)), MAX_WHY)
        finally:
            self.checks_s += time.perf_counter() - start

    def warnings(self, asked: str) -> Iterator[str]:
        """Sentences; `asked` is the format to compute in."""
        for what, why in self.unchecked.items():
            yield f"{what} not checked: {why}"
        yield from self.training.warnings()
        yield from self.products.others(asked, coarser=True)
        if self.products.in_other_threads:
            yield "layers ran in threads of its own code, where their precision was not observed"
        if others := self.modes[1]:
            yield f"in training mode, although it infers: {', '.join(others[:MAX_NAMED])}"

    def notes(self, asked: str) -> Iterator[str]:
        yield from self.products.others(asked, coarser=False)
        yield from self.training.notes()
        if of_dropout := self.modes[0]:
            yield f"layers that drop at random did so in inference: {', '.join(of_dropout[:MAX_NAMED])}"
