"""Rounds of accelbench and a reference, which take the place of the blocks of accelbench's clock."""

from collections.abc import Callable

from accelbench.measuring.runner import Runner
from accelbench.schema.measurement import Block
from accelbench.schema.vocab import Mode
from accelbench.stats.order_statistics import median, median_interval

# The interval of the ratio should lie within these bounds.
BOUNDS = (0.95, 1.05)
run_block = Runner.block


def run_both(
    runner: Runner, reference: Callable[[int], float], rounds: list[tuple[float, float]], num_steps: int
) -> Block:
    """One round: a block of accelbench and as many steps of the reference; which is first alternates.

    Args:
        runner: runs accelbench's steps.
        reference: runs a number of steps and returns the seconds per step.
        rounds: a pair is appended: the seconds per step of accelbench and of the reference.
        num_steps: in the block.
    """
    if len(rounds) % 2:
        reference_s = reference(num_steps)
        block = run_block(runner, num_steps)
    else:
        block = run_block(runner, num_steps)
        reference_s = reference(num_steps)
    rounds.append((block.seconds / num_steps, reference_s))
    return block


def print_heading(width: int) -> None:
    """Prints the heading; the first column is `width` characters wide."""
    print(f"{'case':<{width}} {'mode':<6} {'plain/s':>10} {'ratio':>6}   95 % interval   rounds   within bounds")


def print_row(width: int, case: str, mode: Mode, ratios: list[float], rates: list[float]) -> None:
    """Prints the median ratio of a case, its 95 % interval, and whether that lies within the bounds."""
    low, high = median_interval(ratios) or (float("nan"),) * 2
    verdict = "yes" if BOUNDS[0] <= low and high <= BOUNDS[1] else "NO"
    print(
        f"{case:<{width}} {mode:<6} {median(rates):>10,.0f} {median(ratios):>6.3f}"
        f"   {low:.3f} to {high:.3f}  {len(ratios):>6}   {verdict}",
        flush=True,
    )
