"""Whether training trains: which weights change, which get a gradient, and whether their numbers stay finite."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import NamedTuple

from accelbench.schema.ranges import MAX_NUMBER

MAX_UNUSED = 0.01  # of all trainable numbers: fewer that do not change are not worth a warning
MAX_NAMED = 3  # layers in a sentence
MAX_CYCLE = 64  # steps without a change of any weight that nobody accumulates gradients over


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
        """That nothing is trained."""
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
        """Whether enough steps were seen to say whether weights change."""
        return bool(self.start and self.end) and (self.has_trained or self._is_due(self.num_steps))

    @property
    def has_trained(self) -> bool:
        """Whether any weight changed from `start` to `end`."""
        return bool(self._changed(self.start, self.end))

    def _is_due(self, num_steps: int) -> bool:
        """Whether some weight should have changed in so many steps, or in the `num_still` that followed them."""
        return num_steps + self.num_still >= (self.cycle or MAX_CYCLE)

    def notes(self) -> Iterator[str]:
        """That nothing is known of the training."""
        if self.names and self.start and self.end and not self.is_observed:
            num = self.num_steps + self.num_still
            yield f"no weight changed in {num} steps, over more of which gradients may be accumulated"

    def warnings(self) -> Iterator[str]:
        """Weights that do not change, and layers that do not train."""
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
        """What was observed, in words."""
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
