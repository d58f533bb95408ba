"""Runs steps and times them: the raw times, and how each of them is taken.

A clock is a generator: it yields what the next steps are to be, and is sent how long they took. A `Runner` runs them in
a loop; an engine whose framework has a loop of its own runs them from that loop's calls.
"""

import math
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from statistics import median
from typing import Any, NamedTuple, Protocol, TypeVar

from accelbench.schema.measurement import Block
from accelbench.schema.vocab import Phase, Stop

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


class Stamps(Protocol):
    """How an engine takes time stamps between phases, with as little disturbance as its device allows."""

    fused: bool  # whether the device records a step and runs it as a whole, so that its phases can't be told apart

    def wait(self) -> None: ...  # returns when everything launched on the device is done
    def stamp(self) -> Any: ...  # a stamp that the device reaches when everything launched before it is done
    def between(self, start: Any, end: Any) -> float: ...  # seconds between two stamps that the device has reached


class Ask(NamedTuple):
    """What a clock asks for: steps that are waited for at their end, or one whose parts or phases are timed."""

    num_steps: int = 1
    in_parts: bool = False  # whether each part of the step is waited for
    copies_out: bool = False  # whether the result of the step is copied to the host
    stamps: Stamps | None = None  # with which the phases of the step are timed
    within: AbstractContextManager[Any] | None = None  # what the step runs in, which is not timed


class Ran(NamedTuple):
    """How the steps ran, in seconds; the parts add up to the whole."""

    seconds: float
    num_samples: int = 0
    launch_s: float = 0.0
    data_s: float = 0.0
    copy_in_s: float = 0.0
    copy_out_s: float = 0.0
    phases_s: dict[Phase, float] = {}  # of those that the step has


Result = TypeVar("Result")
Clock = Generator[Ask, Ran, Result]


class Marks:
    """Times the phases of one step, from now on: `mark` is called at the end of each."""

    def __init__(self, stamps: Stamps, now: Now) -> None:
        self._stamps, self._now = stamps, now
        self._marks: list[tuple[Phase, Any]] = []
        self._start_s = now()
        self._start = stamps.stamp()

    def mark(self, phase: Phase) -> None:
        self._marks.append((phase, self._stamps.stamp()))

    def mark_inside(self, phase: Phase) -> None:
        """The same of a phase of computation: a fused step is only recorded (traced) until it is launched."""
        self.mark(Phase.trace if self._stamps.fused else phase)

    def launched(self) -> None:
        """At the end of the computation: a fused step runs only now, as a whole."""
        if self._stamps.fused:
            self._stamps.wait()
            self.mark(Phase.execute)
        self.mark(Phase.framework)

    def end(self) -> Ran:
        """Waits for the device. The phase `framework` is what the other phases leave of the step's wall time."""
        self._stamps.wait()
        seconds = self._now() - self._start_s
        phases_s = dict.fromkeys((phase for phase, _ in self._marks), 0.0)
        previous = self._start
        for phase, stamp in self._marks:
            phases_s[phase] += self._stamps.between(previous, stamp)
            previous = stamp
        phases_s[Phase.framework] += seconds - sum(phases_s.values())
        return Ran(seconds, phases_s=phases_s)


class RankGroup:
    """The processes (ranks) of a cell, here only one. The first one's clock decides how many steps all of them run."""

    def begin(self, num_steps: int) -> int:
        """Has the other ranks run `num_steps` steps, each on its part of every batch; returns how many run here."""
        return num_steps

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
    """Runs the steps that a clock asks for, and keeps their times. `step` is None if another loop runs them."""

    step: Any  # a `Step`
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

    def drive(self, clock: Clock[Result]) -> Result:
        """Runs what a clock asks for, in a loop; returns what the clock returns."""
        ran: Ran | None = None
        while True:
            try:
                ask = clock.send(ran)  # type: ignore[arg-type]  # the first is None
            except StopIteration as end:
                result: Result = end.value
                return result
            ran = self.run(ask)

    def run(self, ask: Ask) -> Ran:
        """Runs the next steps as it is asked for."""
        if ask.stamps is not None:
            return self._run_phases(ask.stamps)
        if ask.in_parts:
            return self._run_parts()
        if ask.copies_out or ask.within is not None:
            return self._run_whole(ask)
        return self._run_free(ask.num_steps)

    def why_end(self, seconds: float, step_s: float, *, is_least: bool = False) -> Stop | None:
        """Why nothing more begins that takes so many `seconds`, with steps of `step_s`; None if there is time."""
        # `is_least`: whether it is of the fewest steps that are published.
        end_s = self.now() + seconds + self.ends.num_checks * step_s
        if end_s > self.ends.timeout_s:
            return Stop.timeout
        return Stop.budget if end_s > self.ends.budget_s and not is_least else None

    def plain_step(self) -> Clock[tuple[float, bool]]:
        """Seconds of one step of warm-up, which is waited for as a whole, and whether it compiled."""
        compiled, _ = self.compiles()
        seconds = (yield Ask()).seconds
        has_compiled = self.compiles()[0] != compiled
        if self._num_plain and not has_compiled:
            self.fastest_s = min(self.fastest_s or math.inf, seconds)
        self._num_plain += 1
        return seconds, has_compiled

    def block(self, num_steps: int) -> Clock[Block]:
        """Times steps that are launched one after another and waited for once, at the end."""
        ran = yield Ask(num_steps)
        return self._measured(ran, num_steps)

    def step_in_parts(self) -> Clock[Block]:
        """Times one step, each of whose parts is waited for and noted."""
        ran = yield Ask(in_parts=True)
        timing = self.timing
        timing.latency_s.append(ran.seconds)
        timing.launch_s.append(ran.launch_s)
        timing.data_s.append(ran.data_s)
        timing.copy_in_s.append(ran.copy_in_s)
        timing.copy_out_s.append(ran.copy_out_s)
        return self._measured(ran, 1)

    def _measured(self, ran: Ran, num_steps: int) -> Block:
        self.measured_s += ran.seconds
        self.timing.num_steady_samples += ran.num_samples
        self.timing.num_steady_steps += num_steps
        return Block(num_steps=num_steps, num_samples=ran.num_samples, seconds=ran.seconds)

    def _run_free(self, num_steps: int) -> Ran:
        now = self.now
        fetch = self.step.fetch
        copy_in = self.step.copy_in
        compute = self.step.compute
        self.ranks.begin(num_steps)
        start = now()
        for _ in range(num_steps):
            batch = fetch()
            compute(copy_in(batch))
        self.wait()
        self.ranks.end()
        seconds = now() - start
        return Ran(seconds, self._num_samples(batch, num_steps))

    def _num_samples(self, batch: Any, num_steps: int) -> int:
        if (samples_of_last := getattr(self.step, "samples_of_last", None)) is not None:
            return int(samples_of_last(num_steps))
        # All batches have the same size; asking each one would cost 2 % of a small model's step.
        return num_steps * int(self.step.num_samples(batch))

    def _run_parts(self) -> Ran:
        now, step, wait = self.now, self.step, self.wait
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
        num_samples = self._num_samples(batch, 1)
        return Ran(end - start, num_samples, launched - copied, fetched - start, copied - fetched, end - computed)

    def _run_whole(self, ask: Ask) -> Ran:
        now, step = self.now, self.step
        self.ranks.begin(1)
        start = now()
        with ask.within or nullcontext():
            result = step.compute(step.copy_in(step.fetch()))
            if ask.copies_out:
                step.copy_out(result)
            self.wait()
        seconds = now() - start
        self.ranks.end()
        return Ran(seconds)

    def _run_phases(self, stamps: Stamps) -> Ran:
        step = self.step
        self.ranks.begin(1)
        unmarked = step.mark
        marks = Marks(stamps, self.now)
        step.mark = marks.mark_inside
        try:
            batch = step.fetch()
            marks.mark(Phase.data_wait)
            batch = step.copy_in(batch)
            marks.mark(Phase.copy_in)
            result = step.compute(batch)
            marks.launched()
            step.copy_out(result)
            marks.mark(Phase.copy_out)
            ran = marks.end()
        finally:
            step.mark = unmarked
        self.ranks.end()
        return ran
