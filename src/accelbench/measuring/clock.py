"""The one clock: warm-up, free-running blocks, then steps waited for one by one.

Throughput runs free: a block's steps are launched without waiting and waited for once, at its end, as a
training loop would. Latency waits: each step's parts are waited for on their own. Both are kept raw.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from accelbench.measuring.step import ONE_RANK, RankGroup, Step
from accelbench.measuring.stopping import STRETCH, has_settled, why_stop
from accelbench.schema.cell import Window
from accelbench.schema.measurement import Block
from accelbench.schema.vocab import Stop

Now = Callable[[], float]


Compiles = tuple[int, float]  # how many compilations so far, and their seconds


# An engine that compiles in step after step is measured all the same, and said to.
MAX_COMPILING_STEPS = 20


# Warm-up steps whose times are kept: tiny models take thousands.
MAX_WARMUP_KEPT = 100


# The fewest blocks and steps from which an interval or a median is published (see `stats`).
MIN_SAMPLES = 6


# Blocks are planned this much longer than asked for, so that a faster spell still fills one.
BLOCK_MARGIN = 1.2


# Blocks of a fixed number of steps: enough for an interval of their median.
NUM_PARTS = 10


# How often longer blocks are tried: on a machine that is disturbed in bursts, some blocks stay short.
MAX_RESTARTS = 12


TIMING_ONLY = ("typical_s", "compiled_in_steady_state")  # of a timing


@dataclass
class Timing:
    """Raw seconds, a value per step or block, in order; see `record.Measurement`.

    `warmup_total_s` is all of the warm-up, of which `warmup_s` keeps the first `MAX_WARMUP_KEPT` steps,
    `typical_s` is the median of the last warm-up steps, from which the blocks' length is chosen;
    `steady_boot_s` is when the steady state began and ended (`boot_s`).
    """

    first_step_s: float | None = None
    warmup_s: list[float] = field(default_factory=list)
    warmup_total_s: float = 0.0
    num_warmup_steps: int = 0
    settled: bool | None = None
    stop: Stop | None = None
    blocks: list[Block] = field(default_factory=list)
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
        """What of it a `Measurement` keeps, by that one's names."""
        kept = {name: value for name, value in vars(self).items() if name not in TIMING_ONLY}
        return {**kept, "num_steady_samples": self.num_steady_samples or None}


def no_compiles() -> Compiles:
    """For engines that compile nothing."""
    return 0, 0.0


def boot_s() -> float:
    """Seconds since the machine started: the same for every process, so that the sampler's series fit."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def raw_s() -> float:
    """Seconds of a clock that nothing sets or slews: what the usual one is held against."""
    return time.clock_gettime(time.CLOCK_MONOTONIC_RAW)


@dataclass
class _Steady:
    """The steady state of one timing: when it began, by each clock, and what was compiled by then."""

    timing: Timing
    compiles: Callable[[], Compiles]
    now: Now
    reference: Now

    def __enter__(self) -> None:
        self.num_compiled = self.compiles()[0]
        self.began_boot_s, self.began_s, self.began_reference_s = boot_s(), self.now(), self.reference()

    def __exit__(self, *_: object) -> None:
        took_s, reference_s = self.now() - self.began_s, self.reference() - self.began_reference_s
        self.timing.clock_drift = took_s / reference_s - 1 if reference_s > 0 else None
        self.timing.steady_boot_s = (self.began_boot_s, boot_s())
        self.timing.compiled_in_steady_state = self.compiles()[0] - self.num_compiled


def measure(
    step: Step,
    wait: Callable[[], None],
    window: Window,
    compiles: Callable[[], Compiles] = no_compiles,
    now: Now = time.perf_counter,
    reference: Now = raw_s,
    team: RankGroup = ONE_RANK,
) -> Timing:
    """Measures `step` within the bounds of `window`.

    Args:
        step: the workload; its steps must be alike, their batches of one size.
        wait: returns when everything launched on the device is done.
        window: the bounds.
        compiles: the engine's count of compilations so far.
        now: a clock in seconds.
        reference: another one, that `now` is held against.
        team: the processes that take the steps.
    """
    timing = Timing()
    runner = Runner(timing, step, wait, compiles, now, team)
    _warm_up(runner, window)
    with _Steady(timing, compiles, now, reference):
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
    team: RankGroup = ONE_RANK,
) -> Timing:
    """Measures a fixed number of steps, running freely in up to `NUM_PARTS` blocks, then as many one by one.

    Args:
        step: the workload, as for `measure`.
        wait: returns when everything launched on the device is done.
        warmup: steps waited for one by one and left out.
        steps: how many are measured, in each of the two ways.
        compiles: the engine's count of compilations so far.
        now: a clock in seconds.
        reference: another one, that `now` is held against.
        team: the processes that take the steps.
    """
    timing = Timing(stop=Stop.fixed)
    runner = Runner(timing, step, wait, compiles, now, team)
    _note_warmup(timing, [runner.plain_step() for _ in range(warmup)])
    num_parts = min(NUM_PARTS, steps)
    with _Steady(timing, compiles, now, reference):
        for part in range(num_parts):
            num_steps = steps * (part + 1) // num_parts - steps * part // num_parts
            timing.blocks.append(runner.block(num_steps))
        for _ in range(steps):
            runner.step_in_parts()
    return timing


@dataclass
class Runner:
    """Takes steps and times them, in each of the three ways."""

    timing: Timing
    step: Step
    wait: Callable[[], None]
    compiles: Callable[[], Compiles]
    now: Now
    team: RankGroup

    def plain_step(self) -> float:
        """One step, waited for; its seconds."""
        now, step = self.now, self.step
        self.team.begin(1)
        start = now()
        step.compute(step.copy_in(step.fetch()))
        self.wait()
        self.team.end()
        return now() - start

    def block(self, num_steps: int) -> Block:
        """Steps that run freely and are waited for at their end."""
        now, fetch, copy_in, compute = self.now, self.step.fetch, self.step.copy_in, self.step.compute
        self.team.begin(num_steps)
        start = now()
        for _ in range(num_steps):
            batch = fetch()
            compute(copy_in(batch))
        self.wait()
        self.team.end()
        seconds = now() - start
        # All batches are of one size. Asking each for it would take 2 % of a small model's step.
        block = Block(num_steps=num_steps, num_samples=num_steps * self.step.num_samples(batch), seconds=seconds)
        self.timing.num_steady_samples += block.num_samples
        return block

    def step_in_parts(self) -> float:
        """One step, each of its parts waited for; its seconds."""
        now, step, wait, timing = self.now, self.step, self.wait, self.timing
        self.team.begin(1)
        start = now()
        batch = step.fetch()
        fetched = now()
        num_samples = step.num_samples(batch)
        batch = step.copy_in(batch)
        wait()
        copied = now()
        result = step.compute(batch)
        launched = now()
        wait()
        self.team.end()
        computed = now()
        step.copy_out(result)
        end = now()
        timing.latency_s.append(end - start)
        timing.num_steady_samples += num_samples
        timing.launch_s.append(launched - copied)
        timing.data_s.append(fetched - start)
        timing.copy_in_s.append(copied - fetched)
        timing.copy_out_s.append(end - computed)
        return end - start


def _note_warmup(timing: Timing, steps: list[float]) -> None:
    timing.first_step_s = steps[0]
    timing.warmup_s = steps[:MAX_WARMUP_KEPT]
    timing.warmup_total_s = sum(steps)
    timing.num_warmup_steps = len(steps)


def _warm_up(runner: Runner, window: Window) -> None:
    """Steps until enough of them in a row, and enough seconds, went by without compiling anything, and settled."""
    timing, compiles = runner.timing, runner.compiles
    steps: list[float] = []
    began, elapsed = 0, 0.0  # index of the first step since the last compilation, and the seconds since
    look_at = window.warmup_steps
    while timing.settled is None:
        compiled, _ = compiles()
        steps.append(runner.plain_step())
        elapsed += steps[-1]
        if compiles()[0] != compiled and len(steps) < MAX_COMPILING_STEPS:
            began, elapsed = len(steps), 0.0
        elif len(steps) - began >= look_at and elapsed >= window.warmup_s:
            timing.settled = has_settled(steps[began:], elapsed, window)
            look_at = math.ceil(1.1 * (len(steps) - began))  # tiny models take thousands of steps
    _note_warmup(timing, steps)
    timing.typical_s = median(steps[-window.warmup_steps :])


def _run_blocks(runner: Runner, window: Window) -> None:
    """Blocks of equal step counts, of at least `block_s` each.

    One that comes out shorter, since the warm-up's steps were waited for or something slowed them down, starts
    the measurement again with longer blocks. To drop the short one alone would favour the slow. So does one in which
    something was compiled.
    """
    timing, compiles = runner.timing, runner.compiles
    num_steps = max(1, math.ceil(BLOCK_MARGIN * window.block_s / max(timing.typical_s, 1e-9)))
    for attempt in range(MAX_RESTARTS + 1):
        timing.blocks, timing.stop = [], None
        while timing.stop is None:
            compiled, _ = compiles()
            block = runner.block(num_steps)
            if compiles()[0] != compiled and attempt < MAX_RESTARTS:
                break
            if block.seconds < window.block_s and attempt < MAX_RESTARTS:
                num_steps = math.ceil(num_steps * max(1.1, BLOCK_MARGIN * window.block_s / max(block.seconds, 1e-9)))
                break
            timing.blocks.append(block)
            timing.stop = why_stop([block.seconds for block in timing.blocks], window)
        else:
            return


def _run_steps(runner: Runner, window: Window) -> None:
    latency_s = runner.timing.latency_s
    elapsed = 0.0
    while len(latency_s) < window.latency_steps:
        few = len(latency_s) < MIN_SAMPLES
        if elapsed >= (STRETCH if few else 1) * window.latency_s:
            break
        elapsed += runner.step_in_parts()
