"""Runs steps and times them: the raw times, and how each of them is taken."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Any, NamedTuple, Protocol

from accelbench.schema.measurement import Block
from accelbench.schema.vocab import Stop

# Returns a time in seconds.
Now = Callable[[], float]
# The number of compilations so far, and the seconds they took.
Compiles = tuple[int, float]


# Fields of `Timing` that a `Measurement` does not have.
TIMING_ONLY = ("compiled_in_steady_state", "num_steady_steps", "whole_s")


class Step(Protocol):
    """One step of a workload, in its timed parts. If batches differ in size it has `samples_of_last(num_steps)` too."""

    def fetch(self) -> Any: ...  # the next batch, in host memory
    def copy_in(self, batch: Any) -> Any: ...  # copies it to the device; may return before the copy is done
    def compute(self, batch: Any) -> Any: ...  # launches the computation; may return before the result is there
    def copy_out(self, result: Any) -> None: ...  # copies the result to the host; returns when the copy is done
    def num_samples(self, batch: Any) -> int: ...  # in the batch, over all processes that compute a part of it


class RankGroup:
    """The processes (ranks) of a cell, here only one. The first one's clock decides how many steps all of them run."""

    def begin(self, num_steps: int) -> None:
        """Has the other ranks run `num_steps` steps, each on its part of every batch."""

    def end(self) -> None:
        """Returns when every rank has finished its steps, so that a time includes the slowest rank."""

    def any(self, holds: bool) -> bool:
        """Whether it holds in any rank; all of them ask."""
        return holds


ONE_RANK = RankGroup()


@dataclass
class Timing:
    """Raw times in seconds, one value per step or block, in order; see `schema.measurement.Measurement`."""

    first_step_s: float | None = None
    warmup_s: list[float] = field(default_factory=list)  # of the first steps; the others count in the total
    warmup_total_s: float = 0.0
    num_warmup_steps: int = 0
    settled: bool | None = None
    stop: Stop | None = None
    blocks: list[Block] = field(default_factory=list)
    dropped_s: float = 0.0  # of the steady state, in no block or single step: those measured again, what ran between
    steps_are_blocks: bool = False  # whether the blocks are made of the single steps, each of which ran once
    latency_s: list[float] = field(default_factory=list)
    launch_s: list[float] = field(default_factory=list)
    data_s: list[float] = field(default_factory=list)
    copy_in_s: list[float] = field(default_factory=list)
    copy_out_s: list[float] = field(default_factory=list)
    num_steady_samples: int = 0
    # when the steady state began and ended, in seconds since the machine started
    steady_boot_s: tuple[float, float] | None = None
    compiled_in_steady_state: int = 0  # the number of compilations after the warm-up
    num_steady_steps: int = 0  # steps of the steady state, whether their times were kept or not
    clock_drift: float | None = None
    whole_s: list[float] = field(default_factory=list)  # where requests are served: of steps of whole batches before

    @property
    def steps_s(self) -> list[float]:
        """Seconds of the measured steps; of blocks their mean where there are no single steps."""
        return self.latency_s or self.whole_s or [block.seconds / block.num_steps for block in self.blocks]

    @property
    def step_s(self) -> float:
        """Seconds of the median of them."""
        return median(self.steps_s)

    @property
    def num_kept(self) -> int:
        """Steps of the steady state whose times are kept: the last ones that ran."""
        num_in_blocks = sum(block.num_steps for block in self.blocks)
        return num_in_blocks + (0 if self.steps_are_blocks else len(self.latency_s))

    def measured(self) -> dict[str, Any]:
        """The fields that a `Measurement` keeps, by its names for them."""
        kept = {name: value for name, value in vars(self).items() if name not in TIMING_ONLY}
        return {**kept, "num_steady_samples": self.num_steady_samples or None}

    def drop(self, seconds: float = 0.0) -> None:
        """Forgets the blocks, which are measured again; their time and further `seconds` belong to no block then."""
        self.dropped_s += seconds + sum(block.seconds for block in self.blocks)
        self.blocks = []
        if self.steps_are_blocks:
            for times in (self.latency_s, self.launch_s, self.data_s, self.copy_in_s, self.copy_out_s):
                times.clear()


class Ends(NamedTuple):
    """When a cell has to end, on the runner's clock, and how many further steps check it after its measuring."""

    budget_s: float = math.inf  # the cell's time is used up; the fewest steps that are published are measured anyway
    timeout_s: float = math.inf  # the cell's process would be killed soon
    num_checks: int = 0


@dataclass
class Runner:
    """Runs steps and times them, in three ways: waited for as a whole, as a block, or part by part."""

    step: Step
    wait: Callable[[], None]  # returns when everything launched on the device is done
    compiles: Callable[[], Compiles] = lambda: (0, 0.0)
    now: Now = time.perf_counter
    ranks: RankGroup = ONE_RANK
    begin_steady: Callable[[], None] = lambda: None  # is called once the warm-up is over
    timing: Timing = field(default_factory=Timing)
    ends: Ends = Ends()
    queues: bool = True  # whether a step may return before it is done, so that waiting for each lets the device idle
    has_least: bool = False  # whether the fewest blocks that are published are measured, however long they take
    measured_s: float = 0.0
    fastest_s: float = 0.0  # of the steps of warm-up, without the first and those that compiled; 0: there was no other
    _num_plain: int = 0

    def why_end(self, seconds: float, step_s: float, *, is_least: bool = False) -> Stop | None:
        """Why nothing more begins that takes so many `seconds`, with steps of `step_s`; None if there is time."""
        # `is_least`: whether it is of the fewest steps that are published.
        end_s = self.now() + seconds + self.ends.num_checks * step_s
        if end_s > self.ends.timeout_s:
            return Stop.timeout
        return Stop.budget if end_s > self.ends.budget_s and not is_least else None

    def plain_step(self) -> tuple[float, bool]:
        """Seconds of one step of warm-up, which is waited for as a whole, and whether it compiled."""
        now, step, (compiled, _) = self.now, self.step, self.compiles()
        self.ranks.begin(1)
        start = now()
        step.compute(step.copy_in(step.fetch()))
        self.wait()
        self.ranks.end()
        seconds, has_compiled = now() - start, self.compiles()[0] != compiled
        if self._num_plain and not has_compiled:
            self.fastest_s = min(self.fastest_s or math.inf, seconds)
        self._num_plain += 1
        return seconds, has_compiled

    def block(self, num_steps: int) -> Block:
        """Times steps that are launched one after another and waited for once, at the end."""
        now, fetch, copy_in, compute = self.now, self.step.fetch, self.step.copy_in, self.step.compute
        self.ranks.begin(num_steps)
        start = now()
        for _ in range(num_steps):
            batch = fetch()
            compute(copy_in(batch))
        self.wait()
        self.ranks.end()
        seconds = now() - start
        if (samples_of_last := getattr(self.step, "samples_of_last", None)) is not None:
            num_samples = samples_of_last(num_steps)
        else:  # all batches have the same size; asking each one would cost 2 % of a small model's step
            num_samples = num_steps * self.step.num_samples(batch)
        block = Block(num_steps=num_steps, num_samples=num_samples, seconds=seconds)
        self._measured(seconds, num_samples, num_steps)
        return block

    def step_in_parts(self) -> Block:
        """Times one step, each of whose parts is waited for and noted."""
        now, step, wait, timing = self.now, self.step, self.wait, self.timing
        self.ranks.begin(1)
        start = now()
        batch = step.fetch()
        fetched = now()
        on_device = step.copy_in(batch)
        wait()
        copied = now()
        result = step.compute(on_device)
        launched = now()
        wait()
        self.ranks.end()
        computed = now()
        step.copy_out(result)
        end = now()
        samples_of_last = getattr(step, "samples_of_last", None)
        num_samples = step.num_samples(batch) if samples_of_last is None else samples_of_last(1)
        timing.latency_s.append(end - start)
        timing.launch_s.append(launched - copied)
        timing.data_s.append(fetched - start)
        timing.copy_in_s.append(copied - fetched)
        timing.copy_out_s.append(end - computed)
        self._measured(end - start, num_samples, 1)
        return Block(num_steps=1, num_samples=num_samples, seconds=end - start)

    def _measured(self, seconds: float, num_samples: int, num_steps: int) -> None:
        self.measured_s += seconds
        self.timing.num_steady_samples += num_samples
        self.timing.num_steady_steps += num_steps
