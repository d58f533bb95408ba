"""Which of many commits made it slower: what processes of a commit say of it, and which one is next. Pure functions.

Let BAD be r times as fast as GOOD. A commit is slower if the whole interval of its ratio to GOOD lies below the root of
r, half of the slow-down on the scale of logarithms, and not slower if it lies above. So one as fast as GOOD, or as BAD,
is taken for the other only where the estimate is off by more than half of the slow-down and its interval besides.
Looking after each round does no harm then, where repeated tests of a difference of 0 would find one by chance
(Armitage, McPherson and Rowe, Repeated Significance Tests on Accumulating Data, JRSS A 132, 1969). If several commits
each add a part, the one is named that reaches the half.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum

from accelbench.compare.record_sets import ComparedProcess
from accelbench.compare.sureness import SpeedRatio, Verdict, compare_processes

MOST = 40  # rounds of a commit: one that can't be told by then is about at the half


class State(StrEnum):
    """What is known of a commit."""

    slower = "slower"
    not_slower = "not slower"
    cant_tell = "can't tell"
    broken = "does not run"


def half_of(slowdown: SpeedRatio) -> float:
    """The ratio that tells a commit as fast as GOOD from one as slow as BAD."""
    return math.sqrt(slowdown.ratio or 1.0)


def judged(
    first: Sequence[ComparedProcess], second: Sequence[ComparedProcess], half: float | None
) -> tuple[State | None, SpeedRatio]:
    """What interleaved processes say of the second commit beside the first; None: it takes more of them.

    Without a `half` the second is BAD: it has to be surely slower by at least half of what it seems to be.
    """
    found = compare_processes(first, second)
    verdict = found.verdict()
    if found.low is None or found.high is None:
        return None, found
    if half is None and verdict in (Verdict.same, Verdict.faster):
        return State.not_slower, found
    limit = half_of(found) if half is None else half
    if found.high < min(limit, 1.0):
        return State.slower, found
    return State.not_slower if half is not None and found.low > limit else None, found


def search(num: int, state_of: Callable[[int, int], State | None]) -> tuple[int, int]:
    """Asks for commits from 0 to `num` - 1, which is BAD, until the first slower one is known, or the answer is None.

    `state_of` gets a commit, and how many may be the first slower one. Returns the last one that is not slower, -1 for
    GOOD, and the first slower one. Those between them can't be told.
    """
    states: dict[int, State] = {}
    good, bad = _ends(states, num)
    while (at := next_commit(states, num)) is not None and (state := state_of(at, bad - good)) is not None:
        states[at] = state
        good, bad = _ends(states, num)
    return good, bad


def _ends(states: Mapping[int, State], num: int) -> tuple[int, int]:
    good = max((at for at, each in states.items() if each == State.not_slower), default=-1)
    return good, min((at for at, each in states.items() if each == State.slower and at > good), default=num - 1)


def next_commit(states: Mapping[int, State], num: int) -> int | None:
    """The middle of the longest run of commits of which nothing is known; None: none is left.

    Commits that don't run come in rows: past one of them, the search goes on far from it, as `git bisect skip` does.
    """
    good, bad = _ends(states, num)
    known = sorted({good, bad, *(at for at in states if good < at < bad)})
    length, start = max((after - before, -before) for before, after in zip(known, known[1:], strict=False))
    return length // 2 - start if length > 1 else None
