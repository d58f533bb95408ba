"""The clock that every engine is measured with: warm-up, then blocks of steps, then single steps.

Throughput comes from blocks: their steps are launched without waiting, as a training loop does, and the device is
waited for once at the end of the block. Latency comes from single steps, whose parts are each waited for. All raw times
are kept.
"""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import SystemRandom
from statistics import median
from typing import Any, Protocol

from accelbench.measuring import witness
from accelbench.measuring.step import ONE_RANK, CountingStep, RankGroup, Step
from accelbench.measuring.stopping import STRETCH, has_settled, why_stop
from accelbench.schema.cell import Window
from accelbench.schema.measurement import Block
from accelbench.schema.vocab import Stop

# Returns a time in seconds.
Now = Callable[[], float]
# The number of compilations so far, and the seconds they took.
Compiles = tuple[int, float]

# After this many compiling steps, measure anyway and warn.
MAX_COMPILING_STEPS = 20
# Warm-up steps whose times are kept; tiny models take thousands.
MAX_WARMUP_KEPT = 100
# The fewest blocks from which an interval, and the fewest steps from which a median, is published (see `stats`).
MIN_SAMPLES = 6
# Blocks are planned this many times longer than asked for, so that a faster one is still long enough.
BLOCK_MARGIN = 1.2
# The number of blocks that a fixed number of steps is divided into: enough for an interval of the median.
NUM_PARTS = 10
# How often the blocks are restarted with more steps; under bursts of load, some blocks stay too short.
MAX_RESTARTS = 12

# Fields of `Timing` that a `Measurement` does not have.
TIMING_ONLY = ("typical_s", "compiled_in_steady_state")


@dataclass
class Timing:
    """Raw times in seconds, one value per step or block, in order; see `schema.measurement.Measurement`.

    Attributes:
        warmup_s: seconds per warm-up step, of the first `MAX_WARMUP_KEPT` steps.
        warmup_total_s: seconds of the whole warm-up.
        dropped_s: seconds of the steady state that no block and no single step has: blocks that were measured again,
            and what ran between them.
        typical_s: the median of the last warm-up steps, from which the number of steps per block is chosen.
        steady_boot_s: when the steady state began and ended, in seconds since the machine started.
        compiled_in_steady_state: the number of compilations after the warm-up.
    """

    first_step_s: float | None = None
    warmup_s: list[float] = field(default_factory=list)
    warmup_total_s: float = 0.0
    num_warmup_steps: int = 0
    settled: bool | None = None
    stop: Stop | None = None
    blocks: list[Block] = field(default_factory=list)
    dropped_s: float = 0.0
    latency_s: list[float] = field(default_factory=list)
    launch_s: list[float] = field(default_factory=list)
    data_s: list[float] = field(default_factory=list)
    copy_in_s: list[float] = field(default_factory=list)
    copy_out_s: list[float] = field(default_factory=list)
    typical_s: float = 0.0
    num_steady_samples: int = 0
    steady_boot_s: tuple[float, float] | None = None
    compiled_in_steady_state: int = 0
    clock_drift: float | None = None

    def measured(self) -> dict[str, Any]:
        """The fields that a `Measurement` keeps, by its names for them."""
        kept = {name: value for name, value in vars(self).items() if name not in TIMING_ONLY}
        return {**kept, "num_steady_samples": self.num_steady_samples or None}


def no_compiles() -> Compiles:
    """The count of an engine that compiles nothing."""
    return 0, 0.0


def boot_s() -> float:
    """Seconds since the machine started: the same clock in every process, the sampler's included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def raw_s() -> float:
    """Seconds of a clock that is never set or slewed: the reference for the drift of the clock that measures."""
    return time.clock_gettime(time.CLOCK_MONOTONIC_RAW)


class Watch(Protocol):
    """Looks at the workload while it is measured, between what is timed."""

    def start(self) -> None:
        """The warm-up is over."""

    def look(self, batch: Any) -> None:
        """To look at the step that has just been timed.

        It is called once, at a moment that nothing in the process can know before.

        Args:
            batch: as the step's `fetch` returned it.
        """


@contextmanager
def _steady(runner: "Runner", reference: Now) -> Iterator[None]:
    """Notes when the steady state begins and ends, its compilations, and how far the clock drifts meanwhile."""
    timing, now = runner.timing, runner.now
    if runner.watch is not None:
        runner.watch.start()
    with witness.timed():
        num_compiled = runner.compiles()[0]
        began_boot_s, began_s, began_reference_s = boot_s(), now(), reference()
        yield
        took_s, reference_s = now() - began_s, reference() - began_reference_s
        timing.clock_drift = took_s / reference_s - 1 if reference_s > 0 else None
        timing.steady_boot_s = (began_boot_s, boot_s())
        timing.compiled_in_steady_state = runner.compiles()[0] - num_compiled


def measure(
    step: Step,
    wait: Callable[[], None],
    window: Window,
    compiles: Callable[[], Compiles] = no_compiles,
    now: Now = time.perf_counter,
    reference: Now = raw_s,
    ranks: RankGroup = ONE_RANK,
    watch: Watch | None = None,
) -> Timing:
    """Measures `step` within the bounds of `window`.

    Args:
        step: the workload; all its batches have the same size, unless it is a `CountingStep`.
        wait: returns when everything launched on the device is done.
        window: the bounds in seconds and steps.
        compiles: returns the engine's number of compilations so far, and their seconds.
        now: the clock.
        reference: a clock that the drift of `now` is measured against.
        ranks: the processes that run the steps.
        watch: looks at one of the measured steps.
    """
    timing = Timing()
    runner = Runner(timing, step, wait, compiles, now, ranks, watch)
    _warm_up(runner, window)
    runner.look_after_s = SystemRandom().uniform(0, window.measure_s + window.latency_s)
    with _steady(runner, reference):
        _run_blocks(runner, window)
        _run_steps(runner, window)
    return timing


def measure_steps(
    step: Step,
    wait: Callable[[], None],
    warmup: int,
    steps: int,
    compiles: Callable[[], Compiles] = no_compiles,
    now: Now = time.perf_counter,
    reference: Now = raw_s,
    ranks: RankGroup = ONE_RANK,
    watch: Watch | None = None,
) -> Timing:
    """Measures a fixed number of steps in up to `NUM_PARTS` blocks, then as many single steps, but one step only once.

    Args:
        step: the workload, as for `measure`.
        wait: returns when everything launched on the device is done.
        warmup: number of single steps that warm up.
        steps: number of steps in all blocks together, and number of single steps; one step is a block alone.
        compiles: returns the engine's number of compilations so far, and their seconds.
        now: the clock.
        reference: a clock that the drift of `now` is measured against.
        ranks: the processes that run the steps.
        watch: looks at one of the measured steps.
    """
    timing = Timing(stop=Stop.fixed)
    runner = Runner(timing, step, wait, compiles, now, ranks, watch)
    _note_warmup(timing, [runner.plain_step() for _ in range(warmup)])
    num_parts = min(NUM_PARTS, steps)
    looked_at = SystemRandom().randrange(num_parts)
    with _steady(runner, reference):
        for part in range(num_parts):
            num_steps = steps * (part + 1) // num_parts - steps * part // num_parts
            if part == looked_at:
                runner.look_after_s = 0.0
            timing.blocks.append(runner.block(num_steps))
        for _ in range(steps if steps > 1 else 0):
            runner.step_in_parts()
    return timing


@dataclass
class Runner:
    """Runs steps and times them, in three ways: waited for as a whole, as a block, or part by part."""

    timing: Timing
    step: Step
    wait: Callable[[], None]
    compiles: Callable[[], Compiles]
    now: Now
    ranks: RankGroup
    watch: Watch | None = None
    look_after_s: float = math.inf  # measured seconds after which `watch` looks
    measured_s: float = 0.0

    def plain_step(self) -> float:
        """Seconds of one step, waited for at its end."""
        now, step = self.now, self.step
        self.ranks.begin(1)
        start = now()
        step.compute(step.copy_in(step.fetch()))
        self.wait()
        self.ranks.end()
        return now() - start

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
        if isinstance(self.step, CountingStep):
            num_samples = self.step.samples_of_last(num_steps)
        else:  # all batches have the same size; asking each one would cost 2 % of a small model's step
            num_samples = num_steps * self.step.num_samples(batch)
        block = Block(num_steps=num_steps, num_samples=num_samples, seconds=seconds)
        self.timing.num_steady_samples += block.num_samples
        self._measured(seconds, batch)
        return block

    def _measured(self, seconds: float, batch: Any) -> None:
        """Has `watch` look if it is time to."""
        self.measured_s += seconds
        if self.watch is not None and self.measured_s >= self.look_after_s:
            self.look_after_s = math.inf
            start = self.now()
            self.watch.look(batch)
            self.timing.dropped_s += self.now() - start

    def step_in_parts(self) -> float:
        """Seconds of one step, each of whose parts is waited for and noted."""
        now, step, wait, timing = self.now, self.step, self.wait, self.timing
        self.ranks.begin(1)
        start = now()
        batch = step.fetch()
        fetched = now()
        num_samples = step.num_samples(batch)
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
        if isinstance(step, CountingStep):
            num_samples = step.samples_of_last(1)
        timing.latency_s.append(end - start)
        timing.num_steady_samples += num_samples
        timing.launch_s.append(launched - copied)
        timing.data_s.append(fetched - start)
        timing.copy_in_s.append(copied - fetched)
        timing.copy_out_s.append(end - computed)
        self._measured(end - start, batch)
        return end - start


def _note_warmup(timing: Timing, steps: list[float]) -> None:
    timing.first_step_s = steps[0] if steps else None
    timing.warmup_s = steps[:MAX_WARMUP_KEPT]
    timing.warmup_total_s = sum(steps)
    timing.num_warmup_steps = len(steps)


def _warm_up(runner: Runner, window: Window) -> None:
    """Runs steps until enough of them, and enough seconds, passed without a compilation and their times settled."""
    timing, compiles = runner.timing, runner.compiles
    steps: list[float] = []
    began, elapsed = 0, 0.0  # the first step after the last compilation, and the seconds since then
    next_check = window.warmup_steps  # in steps
    while timing.settled is None:
        compiled, _ = compiles()
        steps.append(runner.plain_step())
        elapsed += steps[-1]
        if compiles()[0] != compiled and len(steps) < MAX_COMPILING_STEPS:
            began, elapsed = len(steps), 0.0
        elif len(steps) - began >= next_check and elapsed >= window.warmup_s:
            timing.settled = has_settled(steps[began:], elapsed, window)
            next_check = math.ceil(1.1 * (len(steps) - began))  # the check sorts all steps: rarer for tiny models
    _note_warmup(timing, steps)
    timing.typical_s = median(steps[-window.warmup_steps :])


def _run_blocks(runner: Runner, window: Window) -> None:
    """Measures blocks of equal numbers of steps, each at least `block_s` long.

    A block can be too short, because warm-up steps are slower: each is waited for. All blocks are then measured again
    with more steps. Dropping only the short block would bias the result towards slow blocks. A compilation in a block
    restarts the blocks too.
    """
    timing, compiles = runner.timing, runner.compiles
    num_steps = max(1, math.ceil(BLOCK_MARGIN * window.block_s / max(timing.typical_s, 1e-9)))
    for attempt in range(MAX_RESTARTS + 1):
        timing.dropped_s += sum(block.seconds for block in timing.blocks)
        timing.blocks, timing.stop = [], None
        while timing.stop is None:
            compiled, _ = compiles()
            block = runner.block(num_steps)
            if compiles()[0] != compiled and attempt < MAX_RESTARTS:
                timing.dropped_s += block.seconds
                break
            if block.seconds < window.block_s and attempt < MAX_RESTARTS:
                num_steps = math.ceil(num_steps * max(1.1, BLOCK_MARGIN * window.block_s / max(block.seconds, 1e-9)))
                timing.dropped_s += block.seconds
                break
            timing.blocks.append(block)
            timing.stop = why_stop([block.seconds for block in timing.blocks], window)
        else:
            return


def _run_steps(runner: Runner, window: Window) -> None:
    """Measures single steps until there are enough, or the time is up; a median needs `MIN_SAMPLES` of them."""
    latency_s = runner.timing.latency_s
    elapsed = 0.0
    while len(latency_s) < window.latency_steps:
        few = len(latency_s) < MIN_SAMPLES
        if elapsed >= (STRETCH if few else 1) * window.latency_s:
            break
        elapsed += runner.step_in_parts()
