"""The rules that end a measurement: when warm-up has settled, and when enough blocks were measured."""

from collections.abc import Sequence

from accelbench.schema.cell import Window
from accelbench.schema.vocab import Stop
from accelbench.stats import order_statistics

# Step times have settled when their level differs by at most this share between two thirds of the warm-up.
SETTLED_WITHIN = 0.03
# Warm-up that does not settle gives up after this many times its minimum seconds, and twice its minimum steps.
WARMUP_STRETCH = 10
# Slow or noisy workloads are measured for up to this many times the window's seconds.
STRETCH = 3
# Give up early when the target precision needs this many times more blocks than the time limit allows.
OUT_OF_REACH = 1.5


def has_settled(steps: Sequence[float], elapsed: float, window: Window) -> bool | None:
    """Whether step times have stopped changing: the last third has the same level as the middle third.

    `steps` are seconds per step since the last compilation, at least `window.warmup_steps` values; `elapsed` is their
    sum.

    Returns:
        True if settled, None to continue the warm-up, False if it took too long to settle.
    """
    num = len(steps) // 3
    if num >= 2 and order_statistics.alike(steps[-2 * num : -num], steps[-num:], SETTLED_WITHIN):
        return True
    gives_up = elapsed >= WARMUP_STRETCH * window.warmup_s and len(steps) >= 2 * window.warmup_steps
    return False if gives_up else None


def why_stop(blocks: Sequence[float], window: Window) -> Stop | None:
    """Why these blocks are enough; None if another block should be measured.

    `blocks` are their seconds, all of the same number of steps.
    """
    elapsed = sum(blocks)
    if elapsed < window.measure_s:
        return None
    if elapsed >= STRETCH * window.measure_s:
        return Stop.limit
    width = order_statistics.half_width(blocks)
    if width is None:
        return None
    if width <= window.width:
        return Stop.precise
    # The width of an interval shrinks with the square root of the number of samples.
    num_needed = len(blocks) * (width / window.width) ** 2
    num_possible = len(blocks) * STRETCH * window.measure_s / elapsed
    return Stop.noisy if num_needed > OUT_OF_REACH * num_possible and order_statistics.noise_is_stable(blocks) else None
