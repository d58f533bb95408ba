"""Pure functions on floats: what the published numbers are made of."""

import math
from collections.abc import Sequence
from functools import lru_cache
from operator import mul
from statistics import NormalDist, fmean
from statistics import median as median

# The fewest samples from which a tail percentile is shown: MLPerf Inference's early-stopping rule (LoadGen,
# `inference_policies`): 64 for the 90th percentile and 662 for the 99th, at 99 % confidence.
NUM_SAMPLES_FOR = {50: 6, 90: 64, 99: 662}

# A normal distribution's standard deviation over its median absolute deviation from the median.
MAD_TO_SIGMA = 1.4826
# The standard error of a median, of n normal values, is this much of sigma / sqrt(n).
MEDIAN_ERROR = 1.2533
# What counts as an outlier, in such deviations (Iglewicz and Hoaglin, How to Detect and Handle Outliers, 1993).
OUTLIER_SCORE = 3.5
# Values weigh at most this many deviations when their correlation is estimated, so that one outlier is not all of it.
WINSORISED_AT = 3.0
# The strongest correlation of neighbours that is corrected for: beyond, so few values say next to nothing.
MAX_CORRELATION = 0.9


def percentile(values: Sequence[float], percent: float) -> float:
    """The nearest-rank percentile: the smallest value that at least `percent` % of them do not exceed.

    Args:
        values: at least one number, in any order.
        percent: above 0, at most 100.
    """
    ordered = sorted(values)
    return ordered[math.ceil(percent / 100 * len(ordered)) - 1]


def supported_percentile(values: Sequence[float], percent: int) -> float | None:
    """The percentile, or None where there are too few samples to support it (`NUM_SAMPLES_FOR`)."""
    return percentile(values, percent) if len(values) >= NUM_SAMPLES_FOR[percent] else None


def scores(values: Sequence[float]) -> list[float]:
    """How far each value is from the median, in robust standard deviations; zeros where most values are equal."""
    middle = median(values)
    sigma = MAD_TO_SIGMA * median([abs(value - middle) for value in values])
    return [(value - middle) / sigma for value in values] if sigma > 0 else [0.0] * len(values)


def num_outliers(values: Sequence[float]) -> int:
    """Values beyond 3.5 robust standard deviations from the median."""
    return sum(abs(score) > OUTLIER_SCORE for score in scores(values))


def correlation(values: Sequence[float]) -> float:
    """The correlation of each value with the next, 0 to 0.9, estimated on winsorised scores.

    Its bias in a short series, -(1 + 3r) / n for a first-order autoregression (Kendall and Stuart, The Advanced
    Theory of Statistics, volume 3, section 48.4), is added back: neighbours pass for independent only where many
    values say so.

    Args:
        values: in the order of time, at least two.
    """
    bounded = [max(-WINSORISED_AT, min(WINSORISED_AT, score)) for score in scores(values)]
    mean, num = fmean(bounded), len(bounded)
    centred = [value - mean for value in bounded]
    total: float = sum(map(mul, centred, centred))
    if total == 0:
        return 0.0
    raw: float = sum(map(mul, centred, centred[1:])) / total
    return max(0.0, min(MAX_CORRELATION, raw + (1 + 3 * raw) / num))


# Several percentiles are taken of the same steps.
_correlation = lru_cache(maxsize=2)(correlation)


def percentile_interval(
    values: Sequence[float], percent: float, confidence: float = 0.95
) -> tuple[float, float] | None:
    """Bounds that hold the true percentile with about `confidence`, whatever the distribution.

    Order statistics at the ranks n p -+ z sqrt(n p (1 - p) f) (David and Nagaraja, Order Statistics, 3rd edition,
    section 7.1), where f = (1 + r) / (1 - r) is what the correlation r of neighbours adds to the variance of a mean.
    Simulated with a log-normal first-order autoregression and 10 % of outliers (tests/test_stats.py): at least 93 %
    at a nominal 95 % for r up to .4 and 10 values or more, the stopping rule of `clock` included; a block bootstrap of
    the median held 80 to 91 % there.

    Args:
        values: in the order of time.
        percent: above 0, below 100.
        confidence: above 0, below 1.

    Returns:
        (low, high), or None for fewer values than any such bounds need (6 for the median at 95 %).
    """
    num, share = len(values), percent / 100
    if 1 - share**num - (1 - share) ** num < confidence:
        return None
    related = _correlation(tuple(values))
    spread = NormalDist().inv_cdf((1 + confidence) / 2) * math.sqrt(
        num * share * (1 - share) * (1 + related) / (1 - related)
    )
    low, high = math.floor(num * share - spread), math.ceil(num * share + spread) + 1
    ordered = sorted(values)
    return ordered[max(low, 1) - 1], ordered[min(high, num) - 1]


def median_interval(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float] | None:
    """`percentile_interval` of the median."""
    return percentile_interval(values, 50, confidence)


def half_width(values: Sequence[float]) -> float | None:
    """Half of the median's 95 % interval over the median: how exactly it is known; None for too few values."""
    bounds = median_interval(values)
    return (bounds[1] - bounds[0]) / 2 / median(values) if bounds else None


def change(values: Sequence[float]) -> float:
    """How much the last third's median differs from the first third's, as a share of it; 0 where noise explains it.

    Noise explains three standard errors of the difference.

    Args:
        values: above 0, in the order of time.
    """
    third = len(values) // 3
    if third < 2:
        return 0.0
    first, last = median(values[:third]), median(values[-third:])
    error = MEDIAN_ERROR * noise(values) * math.sqrt(2 / third)
    return last / first - 1 if abs(last - first) > 3 * error else 0.0


def alike(before: Sequence[float], after: Sequence[float], tolerance: float = 0.05) -> bool:
    """Whether two stretches of a series have one level, as far as can be told.

    Their medians differ by no more than `tolerance` of the first, or by no more than twice the standard error of the
    difference.

    Args:
        before: at least one value.
        after: at least one value.
        tolerance: a share.
    """
    error = MEDIAN_ERROR * math.hypot(*(noise(part) / math.sqrt(len(part)) for part in (before, after)))
    return abs(median(after) - median(before)) <= max(tolerance * abs(median(before)), 2 * error)


def noise(values: Sequence[float]) -> float:
    """The standard deviation of a series about whatever trend it has; 0 for a single value.

    From the differences of neighbours (von Neumann, The Annals of Mathematical Statistics 12, 1941), robustly.
    """
    steps = [other - one for one, other in zip(values, values[1:], strict=False)]
    if not steps:
        return 0.0
    middle = median(steps)
    return MAD_TO_SIGMA * median([abs(step - middle) for step in steps]) / math.sqrt(2)


def noise_is_stable(values: Sequence[float]) -> bool:
    """Whether the scatter of the first half and of the second are within a factor of 2 of each other."""
    half = len(values) // 2
    first, second = (
        median([abs(v - median(part)) for v in part]) for part in (values[:half], values[len(values) - half :])
    )
    return first <= 2 * second and second <= 2 * first
