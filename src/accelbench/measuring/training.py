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
    num_later: int = 0  # steps in which gradients were looked at
    # steps whose gradients are accumulated before weights change; None if the user's code decides that
    cycle: int | None = 1
    num_steps: int = MAX_CYCLE  # steps from `start` to `end`
    num_after_look: int = MAX_CYCLE  # steps from `looked` to `end`
    # further steps, after which still no weight had changed, if none had changed from `start` to `end`, or from
    # `looked` to `end`
    num_still: int = 0
    # tensors that got a gradient other than 0 in those steps; None if that was not observed
    gradients: set[str] | None = None
    reached: set[str] = field(default_factory=set)  # tensors that got any gradient in them
    sizes: Mapping[str, int] = field(default_factory=dict)  # how many numbers each tensor has
    learning_rates: Sequence[float] = ()  # of the optimisers; empty if unknown
    # names of layers that were in evaluation mode and have something to train or to drop
    evaluating: Sequence[str] = ()
    keeps_outputs: bool = False  # whether forward passes on different inputs gave the same output, and others did not
    is_coarse: bool = False  # whether the weights are of 16 bits, so that rounding may swallow a step of the optimiser

    def defects(self) -> Iterator[str]:
        """Sentences about training that does not train."""
        if self.keeps_outputs:
            yield "in training, some batches get the output of an earlier one, although their inputs differ"
        last = self.later or self.end
        if not self.names or not last:
            return
        bad = [name for name in self.names if name in last and not last[name].largest <= MAX_NUMBER]
        if bad:
            yield f"after training, weights are not finite: {_named(bad, len(self.names))}"
        elif not self._changed(self.start, self.end) and self._is_due(self.num_steps):
            yield f"nothing was trained: no trainable weight changed in the measured steps{self._why()}"
        elif self.stopped and not self._changed_later() and self._is_due(self.num_after_look):
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
        """Whether after so many steps without a change, and `num_still` further ones, some weight should have changed.

        Gradients may be accumulated over more steps than were run.
        """
        return num_steps + self.num_still >= (self.cycle or MAX_CYCLE)

    def notes(self) -> Iterator[str]:
        """That nothing is known of the training."""
        if self.names and self.start and self.end and not self.is_observed:
            num = self.num_steps + self.num_still
            yield f"no weight changed in {num} steps, over more of which gradients may be accumulated"

    def warnings(self) -> Iterator[str]:
        """Sentences about weights that do not change, and layers that do not train."""
        changed = self._changed(self.start, self.end) | self._changed_later()
        still = [name for name in self.names if name not in changed]
        if self.is_coarse and self.gradients is not None:  # of those with a gradient, rounding keeps some as they are
            still = [name for name in still if name not in self.gradients]
        # A loss may not depend on a few numbers, such as the bias of a Wasserstein critic.
        is_small = sum(map(self.sizes.get, still, repeat(0))) <= MAX_UNUSED * sum(self.sizes.values())
        if changed and still and not (self.sizes and is_small):
            yield f"weights that did not change while it trained: {_named(still, len(self.names))}"
        if self.evaluating:
            yield f"in evaluation mode, although it trains: {', '.join(self.evaluating[:MAX_NAMED])}"

    def observed(self) -> str:
        """What was observed, in words."""
        changed = self._changed(self.start, self.end)
        found = f"{len(changed)} of {len(self.names)} trainable tensors changed in the steady state, all bits compared"
        if self.gradients is not None:
            found += f"; {len(self.gradients)} got a gradient in {self.num_later} further steps"
        return found

    def _changed(self, before: States, after: States) -> set[str]:
        return {name for name in self.names if name in after and before.get(name) != after[name]}

    def _changed_later(self) -> set[str]:
        return set() if self.later is None else self._changed(self.end, self.later)

    def _why(self) -> str:
        if self.learning_rates and not any(self.learning_rates):
            return " (the learning rate is 0)"
        if self.gradients is not None and not self.gradients:
            return " (none got a gradient)" if not self.reached else " (their gradients are 0)"
        return ""


def _named(names: Sequence[str], num_all: int) -> str:
    more = f", and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return f"{len(names)} of {num_all} tensors ({', '.join(names[:MAX_NAMED])}{more})"
