"""Alternating rounds of our steps and of a reference; each round replaces a block of our clock."""

from collections.abc import Callable

from accelbench.measuring import clock
from accelbench.schema.measurement import Block
from accelbench.schema.vocab import Mode
from accelbench.stats.robust import median, median_interval

# The interval of the ratio should lie within these bounds.
BOUNDS = (0.95, 1.05)
run_block = clock.Runner.block


def run_both(
    runner: clock.Runner, reference: Callable[[int], float], rounds: list[tuple[float, float]], num_steps: int
) -> Block:
    """One round in place of a block of our clock: our steps and as many of the reference, in alternating order.

    Args:
        runner: runs our steps.
        reference: runs a number of steps and returns the seconds per step.
        rounds: receives the seconds per step: (ours, the reference's).
        num_steps: number of steps of each.
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
    """Prints the heading; `width` is the number of characters of the first column."""
    print(f"{'case':<{width}} {'mode':<6} {'plain/s':>10} {'ratio':>6}   95 % interval   rounds   within bounds")


def print_row(width: int, case: str, mode: Mode, ratios: list[float], rates: list[float]) -> None:
    """Prints a case's median ratio, its 95 % interval, and whether the interval lies within the bounds."""
    low, high = median_interval(ratios) or (float("nan"),) * 2
    verdict = "yes" if BOUNDS[0] <= low and high <= BOUNDS[1] else "NO"
    print(
        f"{case:<{width}} {mode:<6} {median(rates):>10,.0f} {median(ratios):>6.3f}"
        f"   {low:.3f} to {high:.3f}  {len(ratios):>6}   {verdict}",
        flush=True,
    )
