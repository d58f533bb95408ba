"""Pure functions on floats: what the published numbers are made of."""

import math
from collections.abc import Sequence
from statistics import median as median

# The fewest samples from which a tail percentile is shown: MLPerf Inference's early-stopping rule (LoadGen,
# `inference_policies`): 64 for the 90th percentile and 662 for the 99th, at 99 % confidence.
NUM_SAMPLES_FOR = {50: 6, 90: 64, 99: 662}


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


def median_interval(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float] | None:
    """Bounds that hold the true median with at least `confidence`, whatever the distribution.

    The order statistics x(k) and x(n+1-k) with the largest k for which P(Binomial(n, 1/2) < k) is at most
    (1 - confidence) / 2 (David and Nagaraja, Order Statistics, 3rd edition, section 7.1). It assumes
    independent values.

    Returns:
        (low, high), or None for fewer values than any such bounds need (6 at 95 %).
    """
    ordered = sorted(values)
    num = len(ordered)
    tail, rank = 0.0, 0
    while rank < num // 2:
        tail += math.comb(num, rank) / 2**num
        if tail > (1 - confidence) / 2:
            break
        rank += 1
    return (ordered[rank - 1], ordered[num - rank]) if rank else None
