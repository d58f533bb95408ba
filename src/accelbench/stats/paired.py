"""The difference of two shares that were counted on the same samples."""

import math
from statistics import NormalDist


def share_difference(num: int, only_first: int, only_second: int, confidence: float = 0.95) -> tuple[float, float]:
    """An interval of the first share minus the second, for answers to the same questions.

    Wald's interval with half a count added to each of the four cells of the table (Agresti and Min, Statistics in
    Medicine 24, 2005).

    Args:
        num: samples, at least 1.
        only_first: those that only the first answered rightly.
        only_second: those that only the second answered rightly.
        confidence: above 0, below 1.
    """
    total, first, second = num + 2, only_first + 0.5, only_second + 0.5
    difference = (first - second) / total
    error = math.sqrt(first + second - (first - second) ** 2 / total) / total
    width = NormalDist().inv_cdf((1 + confidence) / 2) * error
    return max(-1.0, difference - width), min(1.0, difference + width)
