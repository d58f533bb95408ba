"""Whether a step is faster with inputs that it has had before, as one is that keeps its results.

As MLPerf Inference's compliance tests TEST01 and TEST04 look for cached results: blocks on inputs that were fed before
alternate with blocks on inputs that never were, both in memory of their own. The work of a step may depend on its
inputs, as in a network with an early exit: so inputs that never were fed are then fed once more.
"""

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from accelbench.stats.order_statistics import median

# Results are kept if blocks on inputs that were never fed take longer than this many times the blocks beside them, and
# the shortest one than the shortest one: on a machine where two processes take each other's cores, a single block may
# take a hundred times as long.
MAX_RATIO = 1.10
NUM_ROUNDS = 9
NUM_AGAIN = 5  # blocks that are fed once more
# A short block is run several times in a round, and the shortest time counts: other programs make none shorter. Still
# one round of all may say the opposite. A long block is not swamped by what happens beside it.
TRIES, MAX_OPPOSITE = 3, 1
SHORT_S = 0.02
BLOCK_S = 0.005  # of a block: with fewer steps the clock and the first step's caches decide
MAX_BATCHES = 32  # of a block


@dataclass
class Replay:
    """Seconds of blocks on inputs that were fed before, and of those on inputs that never were, a pair a round."""

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
        is_each = len(self.fed_s) >= NUM_ROUNDS and not self.is_refuted
        return is_each and min(self.unseen_s) > MAX_RATIO * min(self.fed_s)

    @property
    def is_refuted(self) -> bool:
        """Whether rounds say the opposite: one of long blocks, two of short ones."""
        return sum(ratio <= MAX_RATIO for ratio in self.ratios) > MAX_OPPOSITE * (min(self.fed_s) < SHORT_S)

    @property
    def depends(self) -> bool:
        """Whether the same inputs take as long once more, so that the work depends on them.

        Kept results would make the second time shorter by as much as unseen inputs made blocks longer; half of that, as
        a factor, parts the two.
        """
        if not self.again_s:
            return False
        return min(self.first_s) / min(self.again_s) <= math.sqrt(min(self.unseen_s) / min(self.fed_s))

    def warnings(self) -> Iterator[str]:
        """That the speed is one of the inputs."""
        if self.differs and self.depends:
            ratio = f"{median(self.ratios):.2f} times as long"
            yield (
                f"steps take {ratio} with other inputs, and as long again with the same: the speed is that of the "
                "inputs that were fed"
            )

    def defects(self) -> Iterator[str]:
        """That results are kept."""
        if self.differs and not self.depends:
            ratio = f"{median(self.ratios):.2f} times as long"
            yield f"steps take {ratio} with inputs that were never fed: results of earlier inputs are kept"

    def observed(self) -> str:
        """What was observed, in words."""
        ratio = f"{median(self.ratios):.2f} times as long as others"
        return f"{self.num_unseen} steps with inputs that were never fed, which took {ratio}"


def num_batches(step_s: float) -> int:
    """How many steps a block has."""
    return min(MAX_BATCHES, math.ceil(BLOCK_S / max(step_s, 1e-9)))


def usual_longest(latency_s: Sequence[float]) -> float:
    """What nine in ten measured steps took at most: a further one that takes as long is not surely longer."""
    return sorted(latency_s)[max(0, math.ceil(0.9 * len(latency_s)) - 1)]


def replay(
    fed: Callable[[], Sequence[Any]],
    unseen: Callable[[], Sequence[Any]],
    seconds: Callable[[Sequence[Any]], float],
    known_s: float | None = None,
    first_s: float | None = None,
) -> Replay:
    """Alternates blocks until they show that nothing is kept, or all of them that something is.

    Args:
        fed: makes the batches of a block, with inputs that were fed before, in new memory.
        unseen: the same with inputs that never were; others at each call.
        seconds: runs a step on each of the batches, and returns how long that took.
        known_s: what a step on inputs that were fed took at most while it was measured (`usual_longest`), where a block
            is one step: if one of two first blocks on others takes as long, no further one runs.
        first_s: what such a block on inputs that never were has taken already, to be the first of the two.
    """
    found = Replay()

    def seconds_of(block: Sequence[Any]) -> float:
        found.num_unseen += len(block)
        return seconds(block)

    for index in range(0 if known_s is None else 2):
        if index == 0 and first_s is not None:
            found.num_unseen, unseen_s = 1, first_s
        else:
            unseen_s = seconds_of(unseen())
        if unseen_s <= MAX_RATIO * (known_s or 0.0):
            found.fed_s, found.unseen_s = [known_s or 0.0], [unseen_s]
            return found
    while len(found.fed_s) < NUM_ROUNDS:
        fed_s = unseen_s = math.inf
        for index in range(TRIES):
            of_fed, of_unseen = fed(), unseen()  # both are in memory before one runs
            if (len(found.fed_s) + index) % 2:  # so that neither is always the first one
                fed_s, unseen_s = min(fed_s, seconds(of_fed)), min(unseen_s, seconds_of(of_unseen))
            else:
                unseen_s, fed_s = min(unseen_s, seconds_of(of_unseen)), min(fed_s, seconds(of_fed))
            if max(fed_s, unseen_s) >= SHORT_S:
                break
        found.fed_s.append(fed_s)
        found.unseen_s.append(unseen_s)
        if found.is_refuted:
            return found
    blocks = [unseen() for _ in range(NUM_AGAIN if found.differs else 0)]
    for block, same in zip(blocks, copy.deepcopy(blocks), strict=True):
        found.first_s.append(seconds_of(block))
        found.again_s.append(seconds(same))
    return found
