"""Bootstraps processes to find the interval of a difference of two means. The functions are pure."""

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

from accelbench.stats.means import student_quantile, welch_freedom

CONFIDENCE = 0.95
NUM_DRAWS = 4000

Floats = NDArray[np.float64]


def difference_interval(first: Floats, second: Floats, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Returns the bounds of the second mean minus the first mean.

    Each value is the median of one process's blocks. Each side has at least two values. The draws are seeded, so equal
    values give equal bounds. Of 2,000 simulated pairs of equal processes, 3 to 5 % appear different. docs/comparing.md
    describes the test's power.
    """
    # A value already contains the spread and the autocorrelation of its process's blocks. Only processes are drawn,
    # with replacement. If blocks were drawn as well, their spread would count twice (Davison and Hinkley, Bootstrap
    # Methods and their Application, section 3.8). Kalibera and Jones (Rigorous Benchmarking in Reasonable Time, ISMM
    # 2013) also use the process as the unit.
    from scipy.special import ndtr  # not at the top: see `means.student_quantile`

    difference = second.mean() - first.mean()
    quantile = student_quantile(_degrees_of_freedom(first, second), confidence)
    # Draws from five values have no long tails. So each bound is at least as far out as that of Welch's interval.
    welch = quantile * math.sqrt(first.var(ddof=1) / first.size + second.var(ddof=1) / second.size)
    # With few processes, the plain percentiles of the draws are too close together: with five processes on each side,
    # 12 % of equal pairs would appear different. So they are moved apart in two ways (Hesterberg, What Teachers Should
    # Know About the Bootstrap, The American Statistician 69, 2015, section 5.3). The percentile is not 2.5 %, but the
    # share of a normal distribution beyond the quantile of Student's t. `_drawn_deviations` also widens the draws.
    tail = float(ndtr(-quantile))
    # A side has the same draws whether it is first or second. So swapping the sides only changes the signs.
    seeds = (0, 1) if first.tolist() <= second.tolist() else (1, 0)
    drawn = _drawn_deviations(second, seeds[1]) - _drawn_deviations(first, seeds[0])
    low, high = np.quantile(drawn, (tail, 1 - tail))
    return float(difference + min(low, -welch)), float(difference + max(high, welch))


def _degrees_of_freedom(first: Floats, second: Floats) -> float:
    """Returns Welch's degrees of freedom. But if the sizes differ, returns the smaller size minus 1."""
    # In the difference of two samples, skewness cancels only if they are of equal size. With 5 and 20 values, 6 to 8 %
    # of equal pairs would appear different by Welch's degrees of freedom.
    variances = first.var(ddof=1), second.var(ddof=1)
    if first.size != second.size or not any(variances):
        return min(first.size, second.size) - 1
    return welch_freedom([float(variance) / first.size for variance in variances], (first.size, second.size))


def _drawn_deviations(values: Floats, seed: int) -> Floats:
    deviations: Floats = _draw_weights(values.size, seed) @ (values - values.mean())
    return deviations * math.sqrt(values.size / (values.size - 1))


@cache
def _draw_weights(num: int, seed: int) -> Floats:
    counts = np.random.default_rng(seed).multinomial(num, np.full(num, 1 / num), NUM_DRAWS)
    return counts / num
