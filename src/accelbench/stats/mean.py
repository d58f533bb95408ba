"""The mean of several processes, with Student's interval."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev


@dataclass(frozen=True)
class Mean:
    """A mean of `num` values with the bounds of its confidence interval; None if there is only one value."""

    num: int
    mean: float
    low: float | None
    high: float | None

    @property
    def bounds_above_zero(self) -> tuple[float, float] | None:
        """The bounds, of something that is never below 0; None without any, or if few values let them reach 0."""
        return (self.low, self.high) if self.low is not None and self.high is not None and self.low > 0 else None


def common_means(figures: Sequence[Mapping[str, float | None]]) -> dict[str, Mean]:
    """The means of the figures that each of the mappings knows, in the order of the first one."""
    known = {name: [value for each in figures if (value := each.get(name)) is not None] for name in figures[0]}
    return {name: mean_of(values) for name, values in known.items() if len(values) == len(figures)}


def mean_of(values: Sequence[float], confidence: float = 0.95) -> Mean:
    """The mean of at least one value, with an interval that takes the values as independent and about normal."""
    num, mean = len(values), fmean(values)
    if num < 2:
        return Mean(num, mean, None, None)
    from scipy.special import stdtrit  # its import takes a tenth of a second; scipy.stats takes a whole one

    half = float(stdtrit(num - 1, (1 + confidence) / 2)) * stdev(values) / math.sqrt(num)
    return Mean(num, mean, mean - half, mean + half)
