"""The interval of a difference between two means, by a hierarchical bootstrap: pure functions on arrays."""

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

from accelbench.stats.means import student_quantile, welch_freedom

CONFIDENCE = 0.95
NUM_DRAWS = 4000

Floats = NDArray[np.float64]


def difference_interval(first: Floats, second: Floats, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Bounds of the difference of two means, second less first.

    Each value stands for one process: the median of its blocks, which already contains their spread and their
    autocorrelation. Only processes are drawn, with replacement; drawing blocks too would count their spread twice
    (Davison and Hinkley, Bootstrap Methods and their Application, section 3.8; for the process as the unit, Kalibera
    and Jones, Rigorous Benchmarking in Reasonable Time, ISMM 2013).

    With few processes plain percentiles are too narrow: five per side raise 12 % false alarms. The bounds are
    Hesterberg's expanded percentiles (What Teachers Should Know About the Bootstrap, The American Statistician 69,
    2015, section 5.3): deviations are widened by sqrt(n / (n - 1)), and the normal's tail at the t quantile replaces
    the nominal tail. The interval is never narrower than Welch's on either side, since draws from five values have no
    long tails. Of 2,000 pairs of equal processes, 3 to 5 % are then found to differ; docs/comparing.md has the power.

    Each side has at least two values. If their numbers differ, the bounds are wider: Welch's would raise 6 to 8 % false
    alarms with 5 and 20. Equal values give equal bounds on every call: the draws are seeded.
    """
    from scipy.special import ndtr  # as in `means.student_quantile`

    difference = second.mean() - first.mean()
    quantile = student_quantile(_degrees_of_freedom(first, second), confidence)
    welch = quantile * math.sqrt(first.var(ddof=1) / first.size + second.var(ddof=1) / second.size)
    tail = float(ndtr(-quantile))
    # The same draws of each side, whichever is the first: the bounds then only change their signs.
    seeds = (0, 1) if first.tolist() <= second.tolist() else (1, 0)
    drawn = _drawn_deviations(second, seeds[1]) - _drawn_deviations(first, seeds[0])
    low, high = np.quantile(drawn, (tail, 1 - tail))
    return float(difference + min(low, -welch)), float(difference + max(high, welch))


def _degrees_of_freedom(first: Floats, second: Floats) -> float:
    """Welch's degrees of freedom; for different numbers of values, those of the smaller sample."""
    # Skewness cancels in the difference of two samples only if they are of equal size.
    variances = first.var(ddof=1), second.var(ddof=1)
    if first.size != second.size or not any(variances):
        return min(first.size, second.size) - 1
    return welch_freedom([float(each) / first.size for each in variances], (first.size, second.size))


def _drawn_deviations(values: Floats, seed: int) -> Floats:
    deviations: Floats = _draw_weights(values.size, seed) @ (values - values.mean())
    return deviations * math.sqrt(values.size / (values.size - 1))


@cache
def _draw_weights(num: int, seed: int) -> Floats:
    counts = np.random.default_rng(seed).multinomial(num, np.full(num, 1 / num), NUM_DRAWS)
    return counts / num
