"""Which of many cells is the best: successive halving by short processes, and then an interval for the last two.

Every cell gets one short process. In rounds, those that are left get another one, and the slower half drops out
(successive halving: Jamieson and Talwalkar, AISTATS 2016). The last two are measured in full, interleaved, until the
verdict of a comparison (docs/comparing.md) is known. Nothing here knows a clock, so that tests can simulate cells.
"""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import geometric_mean, median

from accelbench.answers.process import Process
from accelbench.compare.record_sets import ComparedProcess
from accelbench.compare.sureness import MIN_PROCESSES, SpeedRatio, Verdict, compare_processes
from accelbench.grid.plan import Planned
from accelbench.schema.plan_file import RaceOutcome

NUM_LAST = 2  # cells that are compared
NUM_FEW, MIN_SHORT = 8, 3  # so few cells first get so many short processes, of which one may be slow by chance
MIN_LEAD = 3  # processes of a cell that is recommended
LOOKS = [MIN_PROCESSES * 2**i for i in range(10)]  # full processes of a cell: more looks would find chance differences
KEPT_SHARE = 0.4  # of the time is kept from the first processes for the rounds and the comparison


@dataclass(eq=False)
class Candidate:
    """A cell in the race."""

    item: Planned
    outcome: RaceOutcome = RaceOutcome.untried
    process: Process | None = None  # its last one
    # The only rate of each is the value that is to be large.
    short: list[ComparedProcess] = field(default_factory=list)
    full: list[ComparedProcess] = field(default_factory=list)
    limited: list[float] = field(default_factory=list)  # what the limit is on, such as the latency, in each process

    @property
    def value(self) -> float:
        """The geometric mean of full processes, as in a comparison; the median of short ones."""
        if self.full:
            return geometric_mean([each.rates[0] for each in self.full])
        return median([each.rates[0] for each in self.short])


@dataclass
class Race:
    """The race of cells that do the same, of which the first is tried before all others."""

    candidates: Sequence[Candidate]
    margin: float  # by which two cells that are the same may differ
    limit: float  # the largest `Candidate.limited` of a cell that may lead
    # Runs a process: of which cell, in full?, seconds until its end. None: it does not count. Without rates: it failed.
    measure: Callable[[Candidate, bool, float], ComparedProcess | None]
    cost_s: Callable[[Candidate, bool], float]  # of a process, as far as known; 0 if its outcome is known
    left_s: Callable[[], float]

    def run(self) -> None:
        """Runs the race until it is decided, or no process fits into the time that is left."""
        self._first_samples()
        self._halve()
        self._compare()

    @property
    def left(self) -> list[Candidate]:
        """The cells that may be the best, best first."""
        found = [each for each in self.candidates if each.outcome == RaceOutcome.left]
        return sorted(found, key=lambda each: -each.value)

    @property
    def leader(self) -> Candidate | None:
        """The cell to recommend; None without one that has enough processes."""
        best = next(iter(self.left), None)
        return best if best and len(best.short + best.full) >= MIN_LEAD else None

    @property
    def ratio(self) -> SpeedRatio | None:
        """The best cell over the next one, by their full processes; None if no other is left."""
        sides = [each.full for each in self.left[:NUM_LAST]]
        return compare_processes(sides[1], sides[0]) if len(sides) == NUM_LAST else None

    @property
    def is_decided(self) -> bool:
        """Whether the best cell is known, or that none can be the best."""
        ratio = self.ratio
        if ratio is None:
            return not self.left or self.leader is not None
        return len(self.left) == NUM_LAST and ratio.verdict(self.margin) != Verdict.cant_tell

    def _first_samples(self) -> None:
        """A short process of each cell, the cheapest first."""
        self._sample(self.candidates[0], False)
        kept_s = KEPT_SHARE * self.left_s()
        for candidate in sorted(self.candidates[1:], key=lambda each: self.cost_s(each, False)):
            self._sample(candidate, False, kept_s)

    def _halve(self) -> None:
        """Rounds of short processes, after each of which the slower half drops out."""
        generator = random.Random(0)
        self._drop_over()
        has_run = True
        while has_run and len(left := self.left) > NUM_LAST:
            if len(left) > NUM_FEW or max(len(each.short) for each in left) >= MIN_SHORT:
                half = math.ceil(len(left) / 2)
                for candidate in left[half:]:
                    candidate.outcome = RaceOutcome.dropped
                del left[half:]
            generator.shuffle(left)  # so that drift of the machine affects all alike
            has_run = any([self._sample(each, False) for each in left])
            self._drop_over()

    def _compare(self) -> None:
        """Full processes of the last cells in turn, until the verdict is known."""
        has_run = True
        while has_run and 0 < len(self.left) <= NUM_LAST:
            if min(len(each.full) for each in self.left) in LOOKS:
                self._drop_over()
                if self.is_decided:
                    return
            last = [each for each in self.candidates if each.outcome == RaceOutcome.left]  # in the same order again
            has_run = any([self._sample(each, True) for each in last])

    def _drop_over(self) -> None:
        for candidate in self.left:
            if median(candidate.limited) > self.limit:
                candidate.outcome = RaceOutcome.over

    def _sample(self, candidate: Candidate, is_full: bool, kept_s: float = 0.0) -> bool:
        """Runs a process of the cell if it fits into the time but for `kept_s`; whether one counts."""
        left_s = self.left_s() - kept_s
        if self.cost_s(candidate, is_full) > max(0.0, left_s):  # the record of an earlier search takes no time
            return False
        process = self.measure(candidate, is_full, left_s)
        if process is None:
            return False
        if process.rates:
            candidate.outcome = RaceOutcome.left
            (candidate.full if is_full else candidate.short).append(process)
        else:
            candidate.outcome = RaceOutcome.failed
        return True
