"""Rounds of ours and of a reference in turn, each in the place of a block of our clock."""

from collections.abc import Callable

from accelbench import clock
from accelbench.measurement import Block

# Within which the interval of the ratio should be.
BOUNDS = (0.95, 1.05)
run_block = clock.Runner.block


def run_both(
    runner: clock.Runner, reference: Callable[[int], float], rounds: list[tuple[float, float]], num_steps: int
) -> Block:
    """One round in the place of a block of our clock: ours, and as many steps of the reference, in turn first.

    Args:
        runner: takes our steps.
        reference: runs so many steps, and gives the seconds of one.
        rounds: gets the seconds of a step, ours and the reference's.
        num_steps: how many.
    """
    if len(rounds) % 2:
        reference_s = reference(num_steps)
        block = run_block(runner, num_steps)
    else:
        block = run_block(runner, num_steps)
        reference_s = reference(num_steps)
    rounds.append((block.seconds / num_steps, reference_s))
    return block
