"""How sure it is that one cell is faster than another: the one place with the limits of what is said of two cells."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from accelbench.compare.pairs import Pair
from accelbench.compare.record_sets import Process
from accelbench.compare.verdict import MARGIN, MIN_PROCESSES, Comparison, Verdict
from accelbench.presentation import significant
from accelbench.schema.measurement import Measurement
from accelbench.stats.order_statistics import median

# Single processes have to differ by more than this to make a difference likely: fresh processes of one cell differ by a
# few percent, and on a busy machine by up to a fifth.
LIKELY_RATIO = 1.2
# Where the steps of two cells differ by more than this and do not overlap, nothing that disturbs a process explains it.
APART_RATIO = 1.5
NOTE = (
    f'How sure: "sure" if {MIN_PROCESSES} or more fresh processes of each cell were interleaved, and the 95 % interval '
    f'of their ratio decides; "same" if it lies within {100 * MARGIN:g} %. "Likely" if they were not, but their '
    f"intervals do not overlap and one is more than {LIKELY_RATIO:g} times as fast, or their steps do not overlap and "
    f'differ by more than {APART_RATIO:g} times. Else "can\'t tell", with the reason: accelbench compare --run may '
    "decide."
)


class Word(StrEnum):
    """How sure a difference between two cells is; `same`: it is sure that there is hardly one."""

    sure = "sure"
    same = "same"
    likely = "likely"
    cant_tell = "can't tell"


@dataclass(frozen=True)
class Steps:
    """Samples/s of a cell's single steps: the slowest, the median and the fastest."""

    low: float
    middle: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Side:
    """A cell that is compared.

    Attributes:
        processes: those that its speed is of.
        speed: its published samples/s, above 0.
        low, high: the 95 % interval of the speed; None if unknown.
        steps: None if unknown.
    """

    processes: Sequence[Process]
    speed: float
    low: float | None
    high: float | None
    steps: Steps | None = None

    @property
    def is_disturbed(self) -> bool:
        """Whether other programs used the CPU during at least half of its processes."""
        return 2 * sum(each.was_beside_others for each in self.processes) >= max(1, len(self.processes))


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What can be said of two cells.

    Attributes:
        ratio: how many times as fast the first is as the second: from interleaved processes where there are enough,
            else the ratio of the two speeds.
        low, high: the 95 % interval of the ratio; None if too few processes were interleaved.
        why: what speaks for or against a difference, besides the interval; may be empty.
    """

    ratio: float
    word: Word
    why: str = ""
    low: float | None = None
    high: float | None = None

    @property
    def reason(self) -> str:
        """Why it is the word: the interval of the ratio, or what speaks against it; may be empty."""
        if self.why or self.low is None or self.high is None:
            return self.why
        return f"{significant(self.low)} to {significant(self.high)} times"

    @property
    def turned(self) -> "Judgement":
        """The same of the second cell over the first."""
        low, high = (None if end is None else 1 / end for end in (self.high, self.low))
        return Judgement(ratio=1 / self.ratio, word=self.word, why=self.why, low=low, high=high)

    @property
    def is_interleaved(self) -> bool:
        """Whether the ratio is one of interleaved processes."""
        return self.low is not None

    @property
    def is_known(self) -> bool:
        """Whether the word is `sure` or `same`."""
        return self.word in (Word.sure, Word.same)


def judge(first: Side, second: Side) -> Judgement:
    """How many times as fast the first cell is as the second, and how sure that is."""
    found = _judged(first, second)
    if found.word == Word.cant_tell and _are_apart(first, second, found.ratio):
        return replace(found, word=Word.likely, why="their steps do not overlap")
    return found


def compared(first: Side, second: Side) -> Comparison | None:
    """The comparison of the first with the second; None if their processes are too few, or were not interleaved."""
    if min(len(first.processes), len(second.processes)) < MIN_PROCESSES:
        return None
    found = Pair(first=list(second.processes), second=list(first.processes)).compare(anyway=False)
    return found if found.low is not None and found.interleaved else None


def _judged(first: Side, second: Side) -> Judgement:
    found = compared(first, second)
    disturbed = "other programs used the CPU meanwhile" if first.is_disturbed or second.is_disturbed else ""
    if found is None:
        ratio, why = first.speed / second.speed, _why_unlikely(first, second) or disturbed
        return Judgement(ratio=ratio, word=Word.cant_tell if why else Word.likely, why=why)
    assert found.ratio is not None
    word = {Verdict.same: Word.same, Verdict.cant_tell: Word.cant_tell}.get(found.verdict(), Word.sure)
    why = disturbed if word != Word.cant_tell else ""
    return Judgement(ratio=found.ratio, word=Word.cant_tell if why else word, why=why, low=found.low, high=found.high)


def _why_unlikely(first: Side, second: Side) -> str:
    """Why the speeds and the intervals alone make no difference likely; empty if they do."""
    if first.low is None or first.high is None or second.low is None or second.high is None:
        return "too few blocks for an interval"
    if first.low <= second.high and second.low <= first.high:
        return "the intervals overlap"
    is_near = max(first.speed / second.speed, second.speed / first.speed) <= LIKELY_RATIO
    return "within the usual spread between runs" if is_near else ""


def _are_apart(first: Side, second: Side, ratio: float) -> bool:
    """Whether every step of one cell is faster than all of the other one, and the median step `APART_RATIO` times."""
    fast, slow = (first.steps, second.steps) if ratio > 1 else (second.steps, first.steps)
    return fast is not None and slow is not None and fast.low > slow.high and fast.middle > APART_RATIO * slow.middle


def steps_of(measured: Measurement) -> Steps | None:
    """The speeds of the steps of a process; of blocks or epochs where no single steps were timed; None without any."""
    parts = [part.num_samples / part.seconds for part in measured.steady_epochs or measured.blocks]
    per_step = measured.samples_per_step
    found = [per_step / seconds for seconds in measured.latency_s if seconds > 0] if per_step else []
    found = found or parts
    return Steps(min(found), median(found), max(found)) if found else None


def joined(processes: Sequence[Steps | None]) -> Steps | None:
    """The steps of several processes together, with the median of their medians; None if one's are unknown."""
    known = [each for each in processes if each is not None]
    if not known or len(known) < len(processes):
        return None
    return Steps(
        min(each.low for each in known), median([each.middle for each in known]), max(each.high for each in known)
    )


def geometric(speeds: Sequence[float]) -> float:
    """The geometric mean: the ratio of two is what a comparison of interleaved processes says."""
    return math.exp(math.fsum(map(math.log, speeds)) / len(speeds))
