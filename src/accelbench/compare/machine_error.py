"""How far a machine's verdicts can be trusted: from processes of one cell that were interleaved with themselves.

A round is two processes of a cell and one of the same cell with a known slow-down, in a random order. The noise is what
the machine does, not a model of it: pairs of samples are drawn from runs of successive rounds, so that drift and
bursts stay in them, and go through `compare.sureness`' own interval (a block bootstrap; Kuensch, The Jackknife and the
Bootstrap for General Stationary Observations, Annals of Statistics 17, 1989).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accelbench.compare.sureness import MARGIN, MIN_PROCESSES
from accelbench.schema.selfcheck import Detectable, Estimate, MachineError
from accelbench.stats.bootstrap import Floats, difference_interval

NUM_PROCESSES = (5, 10, 20)  # per side, for which the smallest change is said
POWER = 0.8
MIN_ROUNDS = 2 * MIN_PROCESSES  # two samples that share no round
NUM_DRAWS = 400
Z = 1.96


@dataclass(frozen=True, kw_only=True)
class Round:
    """The samples/s of each process' blocks: two processes of the cell, in their order, and one of the slowed cell."""

    plain: tuple[list[float], list[float]]
    slowed: list[float]


def machine_error(rounds: Sequence[Round], injected: float, seed: int = 0) -> MachineError:
    """What the rounds of one cell say, in the order in which they ran; `injected` is the slow-down, such as 0.05.

    Raises ValueError: there are fewer than `MIN_ROUNDS`.
    """
    if len(rounds) < MIN_ROUNDS:
        raise ValueError(f"{len(rounds)} rounds are too few: at least {MIN_ROUNDS}")
    plain = np.array([[_speed(blocks) for blocks in each.plain] for each in rounds])
    slowed = np.array([_speed(each.slowed) for each in rounds])
    generator = np.random.default_rng(seed)
    # The slowed processes tell of the noise too, once they are as fast as the others.
    change = (slowed - plain.mean(axis=1)).mean()
    equal = np.column_stack([plain, slowed - change])
    numbers = [num for num in NUM_PROCESSES if num <= len(rounds)]  # more would draw the same rounds several times

    intervals = {num: _drawn(equal, num, generator) for num in numbers}
    low, high = difference_interval(plain.mean(axis=1), slowed)
    return MachineError(
        num_rounds=len(rounds),
        false_verdicts=_false_verdicts(intervals[MIN_PROCESSES], len(rounds)),
        detectable=[Detectable(num_processes=num, slowdown=_detectable(found)) for num, found in intervals.items()],
        injected=injected,
        measured=Estimate(value=-math.expm1(change), low=-math.expm1(high), high=-math.expm1(low)),
        # Within a round: drift between rounds is left out.
        spread=float(np.sqrt(((plain[:, 0] - plain[:, 1]) ** 2).mean() / 2)),
    )


def _speed(blocks: Sequence[float]) -> float:
    """The logarithm of a process' median samples/s."""
    return math.log(float(np.median(blocks)))


def _drawn(equal: Floats, num: int, generator: np.random.Generator) -> Floats:
    """The intervals of differences between two samples of `num` processes a side: shape (NUM_DRAWS, 2)."""
    # Rounds follow one another in runs of `MIN_PROCESSES`, begun anywhere; each gives two of its equal processes.
    found = []
    for _ in range(NUM_DRAWS):
        starts = generator.integers(0, len(equal) - MIN_PROCESSES + 1, size=-(-num // MIN_PROCESSES))
        chosen = (starts[:, None] + np.arange(MIN_PROCESSES)).reshape(-1)[:num]
        found.append(difference_interval(*generator.permuted(equal[chosen], axis=1).T[:2]))
    return np.array(found)


def _is_slower(low: Floats, high: Floats) -> NDArray[np.bool_]:
    """Which intervals of logarithms `SpeedRatio.verdict` calls slower: below 0, and not wholly within the margin."""
    return (high < 0) & (low <= -math.log1p(MARGIN))


def _false_verdicts(intervals: Floats, num_rounds: int) -> Estimate:
    """How often equal cells are called slower or faster. Only samples that share no round are independent tries."""
    # The interval is Wilson's (Probable Inference, the Law of Succession, and Statistical Inference, JASA 22, 1927).
    low, high = intervals.T
    share = float(np.mean(_is_slower(low, high) | _is_slower(-high, -low)))
    num = num_rounds / MIN_PROCESSES
    middle = (share + Z**2 / (2 * num)) / (1 + Z**2 / num)
    width = Z / (1 + Z**2 / num) * math.sqrt(share * (1 - share) / num + Z**2 / (4 * num**2))
    return Estimate(value=share, low=max(0.0, middle - width), high=min(1.0, middle + width))


def _detectable(intervals: Floats) -> float:
    """The slow-down that `POWER` of these tries would call slower."""
    # A slow-down moves an interval as a whole on the logarithmic scale: its upper bound has to come below 0, and its
    # lower one out of the margin.
    low, high = intervals.T
    needed = np.maximum(high, low + math.log1p(MARGIN))
    return max(0.0, -math.expm1(-float(np.quantile(needed, POWER))))
