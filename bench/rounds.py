"""Rounds of ours and of a reference in turn, each in the place of a block of our clock."""

from collections.abc import Callable

from accelbench import clock
from accelbench.measurement import Block

# Within which the interval of the ratio should be.
BOUNDS = (0.95, 1.05)
run_block = clock._run_block


def run_both(
    reference: Callable[[int], float],
    rounds: list[tuple[float, float]],
    timing: clock.Timing,
    step: clock.Step,
    wait: Callable[[], None],
    num_steps: int,
    now: clock.Now,
) -> Block:
    """One round in the place of a block of our clock: ours, and as many steps of the reference, in turn first.

    Args:
        reference: runs so many steps, and gives the seconds of one.
        rounds: gets the seconds of a step, ours and the reference's.
        timing: as for `clock._run_block`, as all that follow.
        step: the workload.
        wait: waits for the device.
        num_steps: how many.
        now: a clock in seconds.
    """
    if len(rounds) % 2:
        reference_s = reference(num_steps)
        block = run_block(timing, step, wait, num_steps, now)
    else:
        block = run_block(timing, step, wait, num_steps, now)
        reference_s = reference(num_steps)
    rounds.append((block.seconds / num_steps, reference_s))
    return block
