"""When the steady state has begun, and when enough of it was measured: rules on the times so far."""

from collections.abc import Sequence

from accelbench.schema.cell import Window
from accelbench.schema.vocab import Stop
from accelbench.stats import robust

# Step times have settled when they change by no more than this share from one third of the warm-up to the next.
SETTLED_WITHIN = 0.03
# What does not settle is warmed up for up to this many times its seconds and steps.
WARMUP_STRETCH = 10
# Blocks that this many times more of would not make exact enough are as many as are worth their time.
OUT_OF_REACH = 1.5
# What is slow or noisy is measured for up to this many times its seconds.
STRETCH = 3


def has_settled(steps: Sequence[float], elapsed: float, window: Window) -> bool | None:
    """Whether step times have stopped to change; None for not yet, False where they did not in time.

    The last third of them has the level of the third before.

    Args:
        steps: seconds of each step since the last compilation, at least as many as the window asks for.
        elapsed: their sum.
        window: the bounds.
    """
    num = len(steps) // 3
    if num < 2:
        return None
    if robust.alike(steps[-2 * num : -num], steps[-num:], SETTLED_WITHIN):
        return True
    gives_up = elapsed >= WARMUP_STRETCH * window.warmup_s and len(steps) >= 2 * window.warmup_steps
    return False if gives_up else None


def why_stop(blocks: Sequence[float], window: Window) -> Stop | None:
    """Whether so many blocks, of as many steps each, are enough, and why; None for more.

    Args:
        blocks: the seconds of each.
        window: the bounds.
    """
    elapsed = sum(blocks)
    if elapsed < window.measure_s:
        return None
    if elapsed >= STRETCH * window.measure_s:
        return Stop.limit
    width = robust.half_width(blocks)
    if width is None:
        return None
    if width <= window.width:
        return Stop.precise
    num_needed = len(blocks) * (width / window.width) ** 2
    num_possible = len(blocks) * STRETCH * window.measure_s / elapsed
    return Stop.noisy if num_needed > OUT_OF_REACH * num_possible and robust.noise_is_stable(blocks) else None
