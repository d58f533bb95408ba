"""What a number promises, and what was observed of it; docs/measuring.md has the table.

A check sees all of the work, or a part that nothing in the process can know before, or says that it saw nothing.
"""

import copy
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from itertools import repeat
from typing import Any, NamedTuple, TypeVar, cast

from accelbench.measuring.output_check import Findings, Outputs
from accelbench.schema.measurement import Check
from accelbench.schema.ranges import MAX_NUMBER
from accelbench.schema.vocab import Promise
from accelbench.stats.order_statistics import median

# NumPy's names of formats -> significant bits.
BITS = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8, "int8": 7, "uint8": 8}
MIN_SHARE = 0.01  # of the operations: below it, a format is not worth a word
MAX_UNUSED = 0.01  # of all trainable numbers: fewer that do not change are not worth a warning
MAX_NAMED = 3  # layers in a sentence
MAX_CYCLE = 64  # steps without a change of any weight that nobody accumulates gradients over
# Results are kept if blocks on inputs that were never fed take longer than this many times the blocks beside them, and
# the shortest one than the shortest one: on a machine where two processes take each other's cores, a single block may
# take a hundred times as long.
MAX_RATIO = 1.10
NUM_ROUNDS, NUM_SHORT_ROUNDS = 9, 15  # of long blocks, and of short ones, which other programs disturb more
NUM_AGAIN = 5  # blocks that are fed once more
# A short block is run several times in a round, and the shortest time counts: other programs make none shorter. Still
# one round of all may say the opposite. A long block is not swamped by what happens beside it. Blocks that are fed once
# more are run as often before they accuse: kept results make each of them shorter.
TRIES, MAX_OPPOSITE = 3, 1
SHORT_S = 0.02
BLOCK_S = 0.005  # of a block: with fewer steps the clock and the first step's caches decide
MAX_BATCHES = 32  # of a block


@dataclass
class Products:
    """The matrix products of a step, as they ran."""

    # format, by NumPy's name -> floating-point operations whose first factor is in it
    flops: dict[str, int] = field(default_factory=dict)
    uncounted: set[str] = field(default_factory=set)  # operators that may be products of an unknown size
    of: str = "matrix products"  # whose operations they are: an engine may know less than those of all products

    @property
    def total(self) -> int:
        return sum(self.flops.values())

    @property
    def most(self) -> str | None:
        return next(iter(self.shares()), None)

    def shares(self) -> dict[str, float]:
        """The share of the operations in each format, the largest first."""
        formats = sorted(self.flops, key=self.flops.__getitem__, reverse=True)
        return {name: self.flops[name] / self.total for name in formats if self.flops[name]}

    def others(self, asked: str, *, coarser: bool) -> Iterator[str]:
        """Sentences about operations in a coarser format than was asked for, or in a finer one, perhaps on purpose."""
        for name, share in self.shares().items():
            is_coarser = BITS.get(name, 0) < BITS[asked]
            if name != asked and share >= MIN_SHARE and is_coarser == coarser:
                yield f"{100 * share:.0f} % of the operations of {self.of} ran in {name}, not in {asked}"

    def observed(self) -> str:
        formats = ", ".join(f"{100 * share:.3g} % in {name}" for name, share in self.shares().items())
        return f"{self.of} of one step: {formats}" if formats else "one step, which has no matrix products"


class State(NamedTuple):
    """The numbers of one tensor."""

    checksum: int  # of all its bits
    largest: float  # the largest magnitude; not finite if a number is not


States = Mapping[str, State]


@dataclass
class Training:
    """What was seen of a network while it trained. The names are those of its trainable tensors."""

    names: Sequence[str] = ()  # the tensors that were trainable when the first step began
    start: States = field(default_factory=dict)  # their states when the steady state began
    looked: States | None = None  # the same after a random one of its steps; None if that was not looked at
    end: States = field(default_factory=dict)  # the same when it ended
    later: States | None = None  # the same after more steps with batches that were never fed; None without
    cycle: int | None = 1  # steps whose gradients make one change of weights; None if the user's code decides that
    num_steps: int = MAX_CYCLE  # steps from `start` to `end`
    num_after_look: int = MAX_CYCLE  # steps from `looked` to `end`
    num_still: int = 0  # further steps, after which still no weight had changed if none had before, or since `looked`
    num_later: int = 0  # further steps in which gradients were looked at
    gradients: set[str] | None = None  # tensors that got one other than 0 in those; None if that was not observed
    reached: set[str] = field(default_factory=set)  # tensors that got any gradient in them
    sizes: Mapping[str, int] = field(default_factory=dict)  # how many numbers each tensor has
    learning_rates: Sequence[float] = ()  # of the optimisers; empty if unknown
    evaluating: Sequence[str] = ()  # layers that were in evaluation mode and have something to train or to drop
    keeps_outputs: bool = False  # whether forward passes on different inputs gave the same output, and others did not
    is_coarse: bool = False  # whether the weights are of 16 bits, so that rounding may swallow a step of the optimiser

    def defects(self) -> Iterator[str]:
        if self.keeps_outputs:
            yield "in training, some batches get the output of an earlier one, although their inputs differ"
        last = self.later or self.end
        if not self.names or not last:
            return
        bad = [name for name in self.names if name in last and not last[name].largest <= MAX_NUMBER]
        if bad:
            yield f"after training, weights are not finite: {self._named(bad)}"
        elif not self.has_trained and self._is_due(self.num_steps):
            why = ""
            if self.learning_rates and not any(self.learning_rates):
                why = " (the learning rate is 0)"
            elif self.gradients is not None and not self.gradients:
                why = " (their gradients are 0)" if self.reached else " (none got a gradient)"
            yield f"nothing was trained: no trainable weight changed in the measured steps{why}"
        elif self.stopped and not self._changed(self.end, self.later) and self._is_due(self.num_after_look):
            yield "training stopped while it was measured: from then on no trainable weight changed"
        elif self.gradients is not None and self.reached and not self.gradients:
            yield "nothing was trained: the gradients of all weights are 0"

    @property
    def stopped(self) -> bool:
        """Whether weights changed until `looked`, and no more until `end`."""
        return self.looked is not None and not self._changed(self.looked, self.end)

    @property
    def is_observed(self) -> bool:
        return bool(self.start and self.end) and (self.has_trained or self._is_due(self.num_steps))

    @property
    def has_trained(self) -> bool:
        return bool(self._changed(self.start, self.end))

    def _is_due(self, num_steps: int) -> bool:
        """Whether some weight should have changed in so many steps, or in the `num_still` that followed them."""
        return num_steps + self.num_still >= (self.cycle or MAX_CYCLE)

    def notes(self) -> Iterator[str]:
        if self.names and self.start and self.end and not self.is_observed:
            num = self.num_steps + self.num_still
            yield f"no weight changed in {num} steps, over more of which gradients may be accumulated"

    def warnings(self) -> Iterator[str]:
        changed = self._changed(self.start, self.end) | self._changed(self.end, self.later)
        still = [name for name in self.names if name not in changed]
        if self.is_coarse and self.gradients is not None:  # of those with a gradient, rounding keeps some as they are
            still = [name for name in still if name not in self.gradients]
        # A loss may not depend on a few numbers, such as the bias of a Wasserstein critic.
        is_small = sum(map(self.sizes.get, still, repeat(0))) <= MAX_UNUSED * sum(self.sizes.values())
        if changed and still and not (self.sizes and is_small):
            yield f"weights that did not change while it trained: {self._named(still)}"
        if self.evaluating:
            yield f"in evaluation mode, although it trains: {', '.join(self.evaluating[:MAX_NAMED])}"

    def observed(self) -> str:
        changed = self._changed(self.start, self.end)
        found = f"{len(changed)} of {len(self.names)} trainable tensors changed in the steady state, all bits compared"
        if self.gradients is not None:
            found += f"; {len(self.gradients)} got a gradient in {self.num_later} further steps"
        return found

    def _changed(self, before: States, after: States | None) -> set[str]:
        after = after or {}
        return {name for name in self.names if name in after and before.get(name) != after[name]}

    def _named(self, names: Sequence[str]) -> str:
        more = f", and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
        return f"{len(names)} of {len(self.names)} tensors ({', '.join(names[:MAX_NAMED])}{more})"


@dataclass
class Replay:
    """Seconds of blocks on inputs that were fed before, and of those on inputs that never were, a pair a round.

    As MLPerf Inference's compliance tests TEST01 and TEST04 look for cached results. Both kinds are in memory of their
    own. A network with an early exit works differently long on them: so inputs that never were fed are fed once more.
    """

    fed_s: list[float] = field(default_factory=list)
    unseen_s: list[float] = field(default_factory=list)
    num_unseen: int = 0  # steps on inputs that never were fed
    # of blocks on inputs that never were, and of the same blocks once more, in other memory; empty unless the others
    # differ
    first_s: list[float] = field(default_factory=list)
    again_s: list[float] = field(default_factory=list)

    @property
    def ratios(self) -> list[float]:
        """Of each block on inputs that were never fed, to the block beside it."""
        return [unseen_s / fed_s for fed_s, unseen_s in zip(self.fed_s, self.unseen_s, strict=True)]

    @property
    def differs(self) -> bool:
        """Whether blocks on inputs that were never fed surely take longer."""
        is_each = len(self.fed_s) >= self.num_rounds and not self.is_refuted
        return is_each and min(self.unseen_s) > MAX_RATIO * min(self.fed_s)

    @property
    def is_refuted(self) -> bool:
        """Whether rounds say the opposite: one of long blocks, two of short ones."""
        return sum(ratio <= MAX_RATIO for ratio in self.ratios) > MAX_OPPOSITE * self.is_short

    @property
    def num_rounds(self) -> int:
        """How many rounds have to agree."""
        return NUM_SHORT_ROUNDS if self.is_short else NUM_ROUNDS

    @property
    def is_short(self) -> bool:
        return min(self.fed_s, default=0.0) < SHORT_S

    @property
    def depends(self) -> bool:
        """Whether the same inputs take as long once more: kept results would make the second time as much shorter."""
        # Half of that, as a factor, parts the two.
        return bool(self.again_s) and min(self.first_s) / min(self.again_s) <= math.sqrt(
            min(self.unseen_s) / min(self.fed_s)
        )

    def warnings(self) -> Iterator[str]:
        if self.differs and self.depends:
            speed = "the speed is that of the inputs that were fed"
            yield f"steps take {self._times} with other inputs, and as long again with the same: {speed}"

    def defects(self) -> Iterator[str]:
        if self.differs and not self.depends:
            yield f"steps take {self._times} with inputs that were never fed: results of earlier inputs are kept"

    def observed(self) -> str:
        return f"{self.num_unseen} steps with inputs that were never fed, which took {self._times} as others"

    @property
    def _times(self) -> str:
        return f"{median(self.ratios):.2f} times as long"


def replay(
    fed: Callable[[], Any],
    unseen: Callable[[], Any],
    seconds: Callable[[Sequence[Any]], float],
    steps_s: Sequence[float],
    *,
    on_host: bool = True,
) -> Replay:
    """Alternates blocks until they show that nothing is kept, or all of them that something is.

    `fed` makes a batch with inputs that were fed before, in new memory, and `unseen` one with inputs that never were,
    others at each call. `seconds` runs a step on each batch of a block, and returns how long that took. A long step
    that is computed `on_host` is first compared with what most measured ones took (`steps_s`).
    """
    found, num_batches = Replay(), min(MAX_BATCHES, math.ceil(BLOCK_S / max(median(steps_s), 1e-9)))

    def block_of(make: Callable[[], Any]) -> list[Any]:
        return [make() for _ in range(num_batches)]

    def seconds_of(block: Sequence[Any]) -> float:
        found.num_unseen += len(block)
        return seconds(block)

    usual_s = sorted(steps_s)[math.ceil(0.9 * len(steps_s)) - 1]  # nine in ten took no longer
    for _ in range(2 if num_batches == 1 and on_host else 0):
        unseen_s = seconds_of(block_of(unseen))
        if unseen_s <= MAX_RATIO * usual_s:
            found.fed_s, found.unseen_s = [usual_s], [unseen_s]
            return found
    while len(found.fed_s) < found.num_rounds:
        fed_s = unseen_s = math.inf
        for index in range(TRIES):
            of_fed, of_unseen = block_of(fed), block_of(unseen)  # both are in memory before one runs
            if (len(found.fed_s) + index) % 2:  # so that neither is always the first one
                fed_s, unseen_s = min(fed_s, seconds(of_fed)), min(unseen_s, seconds_of(of_unseen))
            else:
                unseen_s, fed_s = min(unseen_s, seconds_of(of_unseen)), min(fed_s, seconds(of_fed))
            if min(fed_s, unseen_s) >= SHORT_S:
                break
        found.fed_s.append(fed_s)
        found.unseen_s.append(unseen_s)
        if found.is_refuted:
            return found
    while found.differs and not found.depends and len(found.again_s) < TRIES * NUM_AGAIN:
        blocks = [block_of(unseen) for _ in range(NUM_AGAIN)]
        for block, same in zip(blocks, copy.deepcopy(blocks), strict=True):
            found.first_s.append(seconds_of(block))
            found.again_s.append(seconds(same))
    return found


@dataclass
class Observations:
    """What an engine observed of a cell beside its times. What it could not look at stays as it is here."""

    products: Products = field(default_factory=Products)  # the matrix products of one step
    training: Training = field(default_factory=Training)  # the weights
    replayed: Replay = field(default_factory=Replay)  # steps on inputs that were never fed, beside others
    # layers that were in training mode in inference: those that drop at random, perhaps on purpose, and others
    modes: tuple[Sequence[str], Sequence[str]] = ((), ())
    checks_s: float = 0.0  # how long the checks took
    _is_checking: bool = False

    @contextmanager
    def checking(self) -> Iterator[None]:
        """Adds the time of a check to `checks_s`, unless it is a part of another check."""
        if self._is_checking:
            yield
            return
        start, self._is_checking = time.perf_counter(), True
        try:
            yield
        finally:
            self.checks_s += time.perf_counter() - start
            self._is_checking = False

    def defects(self) -> Iterator[str]:
        yield from self.training.defects()
        yield from self.replayed.defects()

    def warnings(self, asked: str) -> Iterator[str]:
        """Sentences; `asked` is the format to compute in."""
        yield from self.training.warnings()
        yield from self.products.others(asked, coarser=True)
        yield from self.replayed.warnings()
        if others := self.modes[1]:
            yield f"in training mode, although it infers: {', '.join(others[:MAX_NAMED])}"

    def notes(self, asked: str) -> Iterator[str]:
        yield from self.products.others(asked, coarser=False)
        yield from self.training.notes()
        if of_dropout := self.modes[0]:
            yield f"layers that drop at random did so in inference: {', '.join(of_dropout[:MAX_NAMED])}"

    def checks(self, outputs: Outputs | None, num_rows: int, found: Findings, *, trains: bool) -> Iterator[Check]:
        """What was observed of each promise that the cell's process can look at; the host looks at the others."""
        if self.products.flops:
            share = None if self.products.uncounted else 1.0
            yield Check(promise=Promise.precision, observed=self.products.observed(), share=share)
        else:
            yield Check(promise=Promise.precision)
        if trains and self.training.is_observed:
            yield Check(promise=Promise.training, observed=self.training.observed(), share=1.0)
        elif not trains and outputs is not None and found.compared is not None:
            seen = f"{num_rows} random rows of {outputs.size}, of {found.compared} of {len(outputs.fed)} tensors"
            yield Check(promise=Promise.outputs, observed=seen, share=num_rows / outputs.size)
        else:
            yield Check(promise=Promise.training if trains else Promise.outputs)
        if num := self.replayed.num_unseen:
            share = num / (num + self.training.num_steps)
            yield Check(promise=Promise.outputs, observed=self.replayed.observed(), share=share)


Method = TypeVar("Method", bound=Callable[..., Any])


def settings_check(read: str | None, threads: int | None) -> Check:
    """What was read back of the settings of a cell: those of its process, or the number of threads."""
    if read is not None:
        return Check(promise=Promise.settings, observed=f"{read}, were read back", share=1.0)
    if threads is not None:
        return Check(promise=Promise.settings, observed="the number of threads alone was read back")
    return Check(promise=Promise.settings)


def check_timed(method: Method) -> Method:
    """Counts the time of a method that checks something, of a run whose observations are its attribute `seen`."""

    @wraps(method)
    def timed(run: Any, *args: Any, **kwargs: Any) -> Any:
        with run.seen.checking():
            return method(run, *args, **kwargs)

    return cast("Method", timed)
