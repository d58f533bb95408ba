"""Runs steps, times them, and keeps the raw times.

A clock is a generator that decides which steps are timed. It yields requests for steps (`Ask`) and receives their
times (`Ran`). A `Runner` runs the requested steps in a loop. If a framework has its own loop, the framework's callbacks
run the steps instead.
"""

import math
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from statistics import median
from typing import Any, NamedTuple, Protocol, TypeVar

from accelbench.schema.measurement import Block, Interval
from accelbench.schema.vocab import Phase, Stop

# A clock that returns the present time in seconds.
Now = Callable[[], float]
# The number of compilations so far, and their seconds.
Compiles = tuple[int, float]


# The phases of a step's computation.
COMPUTATION = (Phase.forward, Phase.backward, Phase.optimizer)
# Fields of `Timing` that are no fields of `Measurement`.
TIMING_ONLY = ("compiled_in_steady_state", "num_steady_steps")


class Step(Protocol):
    """One step of a workload, divided into the parts that are timed.

    If batches differ in size, the step also has a method `samples_of_last(num_steps)`.
    """

    def fetch(self) -> Any: ...  # returns the next batch, in host memory
    def copy_in(self, batch: Any) -> Any: ...  # copies a batch to the device; may return before the copy is finished
    def compute(self, batch: Any) -> Any: ...  # launches the computation; may return before it is finished
    def copy_out(self, result: Any) -> None: ...  # copies the result to the host; returns when the copy is finished
    def num_samples(self, batch: Any) -> int: ...  # samples of the whole batch, over all processes


class Stamps(Protocol):
    """Takes an engine's time stamps between the phases of a step. Slows the step as little as the device allows."""

    fused: bool  # whether the device records a step and runs it as a whole, so that its phases can't be separated

    def wait(self) -> None: ...  # returns when the device has finished everything that was launched
    def stamp(self) -> Any: ...  # returns a stamp; the device reaches it after everything that was launched before
    def between(self, start: Any, end: Any) -> float: ...  # seconds between two stamps that the device has reached


class Ask(NamedTuple):
    """A request for several steps with one wait at the end, or for one step that is timed in parts or phases.

    A schedule of steps (clock) makes the requests. The parts are the methods of `Step`. A wait for the device follows
    each part. The phases (`vocab.Phase`) divide the computation further. Time stamps separate the phases.
    """

    num_steps: int = 1
    in_parts: bool = False  # whether to wait after each part of the step
    copies_out: bool = False  # whether to copy the result of the step to the host
    stamps: Stamps | None = None  # if not None, they time the phases of the step
    within: AbstractContextManager[Any] | None = None  # a context for a step whose time is not used


class Ran(NamedTuple):
    """The times of the steps that ran, in seconds. The times of the parts add up to the whole."""

    seconds: float
    num_samples: int = 0
    launch_s: float = 0.0
    data_s: float = 0.0
    copy_in_s: float = 0.0
    copy_out_s: float = 0.0
    phases_s: dict[Phase, float] = {}  # seconds of each phase of the step


Result = TypeVar("Result")
Clock = Generator[Ask, Ran, Result]


class Marks:
    """Times the phases of one step. The step begins when this object is created."""

    def __init__(self, stamps: Stamps, now: Now) -> None:
        self._stamps, self._now = stamps, now
        self._marks: list[tuple[Phase, Any]] = []
        self._start_s = now()
        self._start = stamps.stamp()

    def mark(self, phase: Phase) -> None:
        """Marks the end of a phase.

        If the device records a step and then runs it as a whole (`Stamps.fused`), a phase of the computation is
        `trace`: the recording.
        """
        if self._stamps.fused and phase in COMPUTATION:
            phase = Phase.trace
        self._marks.append((phase, self._stamps.stamp()))

    def launched(self) -> None:
        """Marks that the computation was launched. If the step is fused, waits until the recorded step has run."""
        if self._stamps.fused:
            self._stamps.wait()
            self.mark(Phase.execute)
        self.mark(Phase.framework)

    def end(self) -> Ran:
        """Waits for the device and returns the times. The phase `framework` is the wall time minus all other phases."""
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
    """The processes (ranks) of a cell, from the view of one rank. The first rank decides which steps all ranks run."""

    def begin(self, num_steps: int) -> int:
        """Makes all ranks run `num_steps` steps. A rank computes a part of every batch. Returns this rank's steps."""
        return num_steps

    def end(self) -> None:
        """Returns when all ranks have finished their steps, so that a time includes the slowest rank."""

    def any(self, holds: bool) -> bool:
        """Returns whether `holds` is true in at least one rank. All ranks must call this method."""
        return holds


ONE_RANK = RankGroup()


@dataclass
class Timing:
    """Raw times in seconds. A list has one value per step or block, in order. `Measurement` describes the fields."""

    first_step_s: float | None = None
    warmup_s: list[float] = field(default_factory=list)  # only the first steps; `warmup_total_s` includes all
    warmup_total_s: float = 0.0
    num_warmup_steps: int = 0
    settled: bool | None = None
    stop: Stop | None = None
    blocks: list[Block] = field(default_factory=list)
    steps_are_blocks: bool = False  # whether the blocks consist of the single steps
    latency_s: list[float] = field(default_factory=list)
    launch_s: list[float] = field(default_factory=list)
    data_s: list[float] = field(default_factory=list)
    copy_in_s: list[float] = field(default_factory=list)
    copy_out_s: list[float] = field(default_factory=list)
    num_steady_samples: int = 0
    steady_boot_s: Interval | None = None  # the steady state
    compiled_in_steady_state: int = 0  # the number of compilations after the warm-up
    num_steady_steps: int = 0  # steps of the steady state, including dropped ones

    @property
    def step_s(self) -> float:
        """The median seconds of a single step. If none was timed, the median of a block's seconds / steps."""
        return median(self.latency_s or [block.seconds / block.num_steps for block in self.blocks])

    @property
    def num_kept(self) -> int:
        """The number of steady-state steps whose times are kept. These are the last steps that ran."""
        num_in_blocks = sum(block.num_steps for block in self.blocks)
        return num_in_blocks + (0 if self.steps_are_blocks else len(self.latency_s))

    def measured(self) -> dict[str, Any]:
        """The fields for a `Measurement`, by name."""
        fields = {name: value for name, value in vars(self).items() if name not in TIMING_ONLY}
        return {**fields, "num_steady_samples": self.num_steady_samples or None}

    def drop(self) -> None:
        """Removes all blocks, so that they can be measured again."""
        self.blocks = []
        if self.steps_are_blocks:
            for times in (self.latency_s, self.launch_s, self.data_s, self.copy_in_s, self.copy_out_s):
                times.clear()


class Ends(NamedTuple):
    """The times at which the measurement of a cell must end, on the runner's clock."""

    budget_s: float = math.inf  # end of the cell's budget; the fewest steps that are published are measured anyway
    timeout_s: float = math.inf  # a strict end: soon after it, the cell's process would be killed
    num_checks: int = 0  # steps that check the cell after the measurement


@dataclass
class Runner:
    """Runs the steps that a clock of `schedule.py` asks for, and keeps their times."""

    step: Any  # a `Step`; None if a framework's loop runs the steps
    wait: Callable[[], None]  # returns when the device has finished everything that was launched
    compiles: Callable[[], Compiles] = lambda: (0, 0.0)
    now: Now = time.perf_counter
    ranks: RankGroup = ONE_RANK
    begin_steady: Callable[[], None] = lambda: None  # called when the warm-up is over
    timing: Timing = field(default_factory=Timing)
    ends: Ends = Ends()
    queues: bool = True  # whether a step may return before it is finished, so that a wait after a step idles the device
    has_least: bool = False  # whether to measure the fewest blocks that are published even if they take long
    measured_s: float = 0.0
    # Fastest step of the warm-up, without the first step and steps that compiled; 0 if there was no other step.
    fastest_s: float = 0.0
    _num_plain: int = 0

    def drive(self, clock: Clock[Result]) -> Result:
        """Runs all steps that `clock` asks for. Returns the result of `clock`."""
        ran: Ran | None = None
        while True:
            try:
                ask = clock.send(ran)  # type: ignore[arg-type]  # the first is None
            except StopIteration as end:
                result: Result = end.value
                return result
            if ask.stamps is not None:
                ran = self._run_phases(ask.stamps)
            elif ask.in_parts:
                ran = self._run_parts()
            elif ask.copies_out or ask.within is not None:
                ran = self._run_whole(ask)
            else:
                ran = self._run_free(ask.num_steps)

    def why_end(self, seconds: float, step_s: float, *, is_least: bool = False) -> Stop | None:
        """Returns why there is no time for further steps. Returns None if there is time.

        Args:
            seconds: the time that the further steps would take.
            step_s: the time of each step that checks the cell after the further steps.
            is_least: whether a number can be published only after the further steps. The further steps may then exceed
                the budget, but not the time limit.
        """
        end_s = self.now() + seconds + self.ends.num_checks * step_s
        if end_s > self.ends.timeout_s:
            return Stop.timeout
        return Stop.budget if end_s > self.ends.budget_s and not is_least else None

    def plain_step(self) -> Clock[tuple[float, bool]]:
        """Runs one step of the warm-up. Returns its seconds, and whether anything was compiled in it."""
        compiled, _ = self.compiles()
        seconds = (yield Ask()).seconds
        has_compiled = self.compiles()[0] != compiled
        if self._num_plain and not has_compiled:
            self.fastest_s = min(self.fastest_s or math.inf, seconds)
        self._num_plain += 1
        return seconds, has_compiled

    def block(self, num_steps: int) -> Clock[Block]:
        """Times a block. Launches its steps one after another, and waits once, at the end."""
        ran = yield Ask(num_steps)
        return self._measured(ran, num_steps)

    def step_in_parts(self) -> Clock[Block]:
        """Times one step and its parts, with a wait after each part."""
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
        """Runs steps without a wait between them."""
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
        # All batches have the same size. Counting the samples of each batch would cost 2 % of a small model's step.
        return num_steps * int(self.step.num_samples(batch))

    def _run_parts(self) -> Ran:
        """Runs one step with a wait after each part."""
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
        step.mark = marks.mark
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
