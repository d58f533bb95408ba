"""Which of many cells changed between two revisions, so that hardly any list names one by chance."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import t as student

from accelbench.compare.pairs import Pair
from accelbench.compare.record_sets import Process
from accelbench.compare.sureness import MIN_PROCESSES, are_interleaved
from accelbench.stats.bootstrap import Floats
from accelbench.stats.means import welch_freedom
from accelbench.stats.order_statistics import median

ALPHA = 0.05  # the share of lists of equal cells that name any of them
MIN_OWN = 8  # processes a side: with fewer, a cell's own variance is not known well enough
MIN_POOLED = 30  # degrees of freedom of the variance that is then taken from all cells


class Change(StrEnum):
    """What became of a cell: failed, if it ran at the first revision and no process ended ok at the second."""

    failed = "failed"
    slower = "slower"
    faster = "faster"
    none_found = "no change found"
    cant_tell = "can't tell"


@dataclass(frozen=True, kw_only=True)
class CellChange:
    """A cell at two revisions."""

    label: str
    num_first: int
    num_second: int
    change: Change
    ratio: float | None = None  # of the speeds, second over first; None if a side has no process that ended ok
    low: float | None = None  # of the 95 % interval of this cell alone; None if it was not tested
    high: float | None = None
    p: float | None = None  # the probability of such a difference between equal cells; None if it was not tested
    why: str = ""  # nothing can be told; else empty


class Test(NamedTuple):
    """A two-sided t-test of the logarithms of two samples' speeds, second less first, with the 95 % interval."""

    difference: float
    low: float
    high: float
    p: float


def changes(pairs: Sequence[Pair], *, anyway: bool = False) -> list[CellChange]:
    """What became of each cell, those that changed most first; `anyway` tests cells that were not interleaved, too."""
    samples = [(_speeds(each.first), _speeds(each.second)) for each in pairs]
    tests = welch(samples)
    are_open = [anyway or are_interleaved(each.first, each.second) for each in pairs]
    chosen = [test for test, is_open in zip(tests, are_open, strict=True) if test is not None and is_open]
    changed = iter(holm([test.p for test in chosen]))
    told = []
    for pair, (first, second), test, is_open in zip(pairs, samples, tests, are_open, strict=True):
        found: Any = {}
        change, why = Change.cant_tell, "not interleaved" if test is not None else _too_few(first.size, second.size)
        if first.size and second.size:
            found["ratio"] = math.exp(second.mean() - first.mean())
        if first.size and pair.second and not second.size:
            change, why = Change.failed, ", ".join(dict.fromkeys(each.outcome for each in pair.second))
        elif test is not None and is_open:
            change, why = (Change.slower if test.difference < 0 else Change.faster), ""
            change = change if next(changed) else Change.none_found
            found |= {"low": math.exp(test.low), "high": math.exp(test.high), "p": test.p}
        sizes: Any = {"num_first": first.size, "num_second": second.size}
        told.append(CellChange(label=pair.label, **sizes, change=change, why=why, **found))
    order = list(Change)
    return sorted(told, key=lambda each: (order.index(each.change), -abs(math.log(each.ratio or 1.0))))


def welch(samples: Sequence[tuple[Floats, Floats]]) -> list[Test | None]:
    """Welch's test of each pair of samples of logarithms; None for those that are too small.

    A sample of fewer than `MIN_OWN` values has at least the variance of all samples together: its own may be small by
    chance, which would name equal cells. Larger variances make the test more careful.
    """
    sides = [side for pair in samples for side in pair if side.size > 1]
    freedom = sum(side.size - 1 for side in sides)
    pooled = sum(side.var(ddof=1) * (side.size - 1) for side in sides) / freedom if freedom >= MIN_POOLED else None
    return [_test(first, second, pooled) for first, second in samples]


def holm(probabilities: Sequence[float]) -> list[bool]:
    """Which of several tests reject (Holm, A Simple Sequentially Rejective Multiple Test Procedure, 1979).

    Of lists in which nothing changed, at most the share `ALPHA` rejects any.
    """
    rejected = [False] * len(probabilities)
    for rank, index in enumerate(sorted(range(len(probabilities)), key=lambda i: probabilities[i])):
        if probabilities[index] > ALPHA / (len(probabilities) - rank):
            break
        rejected[index] = True
    return rejected


def _test(first: Floats, second: Floats, pooled: float | None) -> Test | None:
    smallest = min(first.size, second.size)
    if smallest < MIN_PROCESSES or (smallest < MIN_OWN and pooled is None):
        return None
    variances = []
    for side in (first, second):
        least = pooled if pooled is not None and side.size < MIN_OWN else 0.0
        variances.append(max(float(side.var(ddof=1)), least) / side.size)
    difference, error = float(second.mean() - first.mean()), math.sqrt(sum(variances))
    freedom = welch_freedom(variances, (first.size, second.size)) if error else 1.0
    half_width = float(student.isf(0.025, freedom) * error)
    p = float(2 * student.sf(abs(difference) / error, freedom)) if error else float(not difference)
    return Test(difference, difference - half_width, difference + half_width, p)


def _speeds(processes: Sequence[Process]) -> Floats:
    return np.array([math.log(median(each.rates)) for each in processes if each.rates])


def _too_few(num_first: int, num_second: int) -> str:
    if min(num_first, num_second) < MIN_PROCESSES:
        return f"it takes {MIN_PROCESSES} processes a side"
    return f"it takes {MIN_OWN} processes a side, or more cells to know the noise from"
