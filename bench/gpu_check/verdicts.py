"""When a figure falls short."""

from collections.abc import Sequence

LONG_STEP_S = 0.001
LONG_STEP_BOUNDS = (0.97, 1.03)
SHORT_STEP_BOUNDS = (0.9, 1.1)  # of short steps, launches take most of the time, which varies between processes
ENERGY_BOUNDS = (0.9, 1.1)


def within(ratio: float, bounds: tuple[float, float]) -> bool:
    """Whether a ratio lies within its bounds, these included; NaN does not."""
    return bounds[0] <= ratio <= bounds[1]


def bounds_of(step_s: float) -> tuple[float, float]:
    """The bounds of the ratio to a plain loop whose step takes `step_s` seconds."""
    return LONG_STEP_BOUNDS if step_s > LONG_STEP_S else SHORT_STEP_BOUNDS


def integral(times_s: Sequence[float], watts: Sequence[float]) -> float:
    """The joules of power samples: each span counts with the mean of the powers at its ends.

    Raises:
        ValueError: there are fewer than two samples, or the times don't rise.
    """
    spans = [after - before for before, after in zip(times_s, times_s[1:], strict=False)]
    if not spans or min(spans) <= 0:
        raise ValueError("an integral needs two samples or more, at rising times")
    means = [(before + after) / 2 for before, after in zip(watts, watts[1:], strict=False)]
    return sum(span * mean for span, mean in zip(spans, means, strict=True))
