"""Order statistics, robust estimates and intervals."""

import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from functools import cached_property
from statistics import NormalDist
from statistics import median as median

import numpy as np
from numpy.typing import NDArray

# The fewest samples for which a tail percentile is shown, by the early-stopping rule of MLPerf Inference (LoadGen,
# `inference_policies`) at 99 % confidence. The 6 are what `percentile_interval` needs for a median.
NUM_SAMPLES_FOR = {50: 6, 90: 64, 99: 662}

# Ratio of a normal distribution's standard deviation to its median absolute deviation from the median.
MAD_TO_SIGMA = 1.4826
# The standard error of the median of n normal values, in units of sigma / sqrt(n).
MEDIAN_ERROR = 1.2533
# A value is an outlier if its robust score is larger (Iglewicz and Hoaglin, How to Detect and Handle Outliers, 1993).
OUTLIER_SCORE = 3.5
# Scores are clipped at this before their correlation is estimated: otherwise one outlier would dominate it.
WINSORISED_AT = 3.0
# The strongest correlation of neighbours that intervals are corrected for. A stronger one leaves too little
# information.
MAX_CORRELATION = 0.9
# Quantiles of the normal distribution, for two-sided intervals at 95 %, and for two-sided tests at 1 %.
QUANTILE_95 = NormalDist().inv_cdf(0.975)
QUANTILE_99 = NormalDist().inv_cdf(0.995)
MOST_COMPARED = 2000  # largest number of values that are compared in pairs; longer series are thinned


class Sample:
    """A series of numbers, in the order of time. It is not empty. Statistics are computed once, on first use."""

    def __init__(self, values: Sequence[float] | NDArray[np.float64]) -> None:
        self.values = np.asarray(values, np.float64)
        self.ordered = np.sort(self.values)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def median(self) -> float:
        return _middle(self.ordered)

    @cached_property
    def scores(self) -> NDArray[np.float64]:
        """Distances from the median in robust standard deviations. All are 0 if most values are equal."""
        distances = self.values - self.median
        sigma = MAD_TO_SIGMA * _middle(np.sort(np.abs(distances)))
        return distances / sigma if sigma > 0 else np.zeros_like(distances)

    @property
    def num_outliers(self) -> int:
        """The number of values that are more than `OUTLIER_SCORE` robust standard deviations from the median."""
        return int(np.count_nonzero(np.abs(self.scores) > OUTLIER_SCORE))

    @cached_property
    def correlation(self) -> float:
        """The correlation of successive clipped scores, limited to the range 0 to 0.9. Needs at least two values."""
        # In a short series the estimate is too low: for a first-order autoregression, its bias is -(1 + 3r) / n
        # (Kendall and Stuart, The Advanced Theory of Statistics, volume 3, section 48.4). The bias is added back.
        winsorised = self.scores.clip(-WINSORISED_AT, WINSORISED_AT)
        centred = winsorised - winsorised.sum() / len(winsorised)
        total = float(centred @ centred)
        if total == 0:
            return 0.0
        raw = float(centred[:-1] @ centred[1:]) / total
        return max(0.0, min(MAX_CORRELATION, raw + (1 + 3 * raw) / len(centred)))

    def percentile(self, percent: float) -> float:
        """Returns the nearest-rank percentile: the smallest value that is >= `percent` % of the values.

        The 50th percentile is the median. So it may be the mean of the two middle values, which may be far apart.
        """
        if percent == 50:
            return self.median
        return float(self.ordered[math.ceil(percent / 100 * len(self.ordered)) - 1])

    def supported_percentile(self, percent: int) -> float | None:
        """Returns the percentile. Returns None if there are fewer values than it needs (`NUM_SAMPLES_FOR`)."""
        return self.percentile(percent) if len(self.values) >= NUM_SAMPLES_FOR[percent] else None

    def percentile_interval(self, percent: float) -> tuple[float, float] | None:
        """Returns 95 % bounds of the true percentile, for any distribution.

        Returns None if there are too few values. The median needs 6 values.

        In simulations (tests/stats/test_order_statistics.py), the bounds contain the true value in at least 93 % of
        cases. The simulated series have at least 10 values, 10 % of outliers, and neighbours with a correlation of at
        most 0.4. A block bootstrap of the median would reach only 80 to 91 %.
        """
        # The bounds are the values at the ranks n p ± z sqrt(n p (1 - p) f) (David and Nagaraja, Order Statistics, 3rd
        # edition, section 7.1). n is the number of values, p the percentile as a share, z the quantile of the normal
        # distribution, and r the correlation of neighbours. f = (1 + r) / (1 - r): r raises the variance of a mean by
        # this factor.
        num = len(self.values)
        share = percent / 100
        if 1 - share**num - (1 - share) ** num < 0.95:
            return None
        related = self.correlation
        variance = num * share * (1 - share) * (1 + related) / (1 - related)
        spread = QUANTILE_95 * math.sqrt(variance)
        low = math.floor(num * share - spread)
        high = math.ceil(num * share + spread) + 1
        return float(self.ordered[max(low, 1) - 1]), float(self.ordered[min(high, num) - 1])


def _middle(ordered: NDArray[np.float64]) -> float:
    half = len(ordered) // 2
    return float(ordered[half]) if len(ordered) % 2 else float(ordered[half - 1] + ordered[half]) / 2


def half_width(values: Sequence[float]) -> float | None:
    """Returns half the width of the median's 95 % interval, divided by the median. Returns None for too few values."""
    bounds = Sample(values).percentile_interval(50)
    return (bounds[1] - bounds[0]) / 2 / median(values) if bounds else None


def change(values: Sequence[float]) -> float:
    """Returns the change of a series: `median of its last third / median of its first third - 1`.

    All values are above 0. The change is significant in two cases: the series has a trend, or its last third lies apart
    (`ends_apart`), for example because the device was throttled at the end. Otherwise, 0 is returned.

    In simulations with 3 % of noise and 10 % of outliers, these shares of series show a change:

    - 0.5 % of steady series with 6 to 8 values;
    - 40 % of series with 6 values, and 86 % with 8 values, if the level falls evenly by 20 %;
    - 87 % of series with 20 values, if the level falls evenly by 10 %.
    """
    # Kendall's correlation with time tests the trend, two-sided at 1 % (Mann, Econometrica 13, 1945). With 6 values,
    # the median's interval also shows a fall, because it reaches from the smallest to the largest value.
    third = len(values) // 3
    if third < 2:
        return 0.0
    every = values[:: len(values) // MOST_COMPARED + 1]
    num = len(every)
    trend = 0
    before = list[float]()
    # Adds the number of earlier smaller values, subtracts the number of earlier larger ones.
    for value in every:
        trend += bisect_left(before, value) + bisect_right(before, value) - len(before)
        insort(before, value)
    is_trend = abs(trend) - 1 > QUANTILE_99 * math.sqrt(num * (num - 1) * (2 * num + 5) / 18)
    is_change = is_trend or (third > 2 and ends_apart(values))
    return median(values[-third:]) / median(values[:third]) - 1 if is_change else 0.0


def ends_apart(values: Sequence[float]) -> bool:
    """Is true if the last third is below all values before it, or if the last third is above all of them.

    With 9 steady values this happens by chance in 2.4 % of cases.
    """
    if not (third := len(values) // 3):
        return False
    before = values[:-third]
    last = values[-third:]
    return max(last) < min(before) or min(last) > max(before)


def alike(before: Sequence[float], after: Sequence[float], tolerance: float = 0.05) -> bool:
    """Decides whether two parts of a series have the same level.

    The medians may differ by `tolerance` times the first median, or by twice the standard error of their difference,
    whichever is larger.
    """
    error = MEDIAN_ERROR * math.hypot(*(noise(part) / math.sqrt(len(part)) for part in (before, after)))
    return abs(median(after) - median(before)) <= max(tolerance * abs(median(before)), 2 * error)


def noise(values: Sequence[float]) -> float:
    """Returns the standard deviation of a series around its trend. Returns 0 for a single value."""
    # A robust estimate from the differences of neighbours (von Neumann, Annals of Mathematical Statistics 12, 1941).
    steps = [later - earlier for earlier, later in zip(values, values[1:], strict=False)]
    if not steps:
        return 0.0
    middle = median(steps)
    return MAD_TO_SIGMA * median([abs(step - middle) for step in steps]) / math.sqrt(2)


def noise_is_stable(values: Sequence[float]) -> bool:
    """Is true if neither half of a series scatters more than twice as much as the other half."""
    half = len(values) // 2
    parts = (values[:half], values[len(values) - half :])
    first, second = (median([abs(value - median(part)) for value in part]) for part in parts)
    return first <= 2 * second and second <= 2 * first
