"""The clock, the same for all engines: which steps are timed, how they run, and their raw times.

A measurement is a warm-up, blocks of steps and single steps. Throughput is computed from blocks. The steps of a block
are launched without waiting, as in a training loop. The clock waits once, at the end of the block. Latency is computed
from single steps, with a wait after each part of a step. On a CPU, a step is finished when it returns. So waiting costs
nothing there, and blocks may consist of single steps. docs/measuring.md describes the schedule.

A clock is a generator that decides which steps are timed. It yields requests for steps (`Ask`) and receives their
times (`Ran`). A `Runner` runs the requested steps in a loop. If a framework has its own loop, the framework's callbacks
run the steps instead.
"""

import math
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, fields
from statistics import median
from typing import Any, NamedTuple, Protocol, TypeVar

from accelbench.schema.cell import SERVING, Cell, Phase, Stop, Window
from accelbench.schema.measurement import Block, Breakdown, Times
from accelbench.stats import order_statistics

# The warm-up has settled if the step times of its middle third and of its last third differ by at most this share.
SETTLED_WITHIN = 0.03
# A warm-up that does not settle ends after this many times its minimum seconds, and twice its minimum steps.
WARMUP_STRETCH = 10
# A step that compiles restarts the warm-up, but not after this many steps.
MAX_COMPILING_STEPS = 20
# Warm-up steps whose times are kept. Tiny models run thousands of steps.
MAX_WARMUP_KEPT = 100
# An interval is published from this many blocks on, and a median from this many steps on (see `stats`).
MIN_SAMPLES = 6
# Blocks are planned this many times longer than needed, so that a faster block is still long enough.
BLOCK_MARGIN = 1.2
MAX_PARTS = 1000  # the number of blocks of single steps if the time of a step is unknown
# Fewest steps of a warm-up, even beyond the budget: the first step includes work that is done only once.
LEAST_WARMUP = 2
NUM_CHECK_STEPS = 2  # approximate number of steps that check a cell after its measurement
# How often the blocks are restarted with more steps. Under bursts of load, some blocks stay too short.
MAX_RESTARTS = 12
# A slow or noisy workload is measured for at most this many times the window's seconds.
STRETCH = 3
# Measuring ends early if the wanted width needs this many times more blocks than the time allows.
OUT_OF_REACH = 1.5
# Epochs over the test set if `protocol=fit` infers. The first one is the warm-up.
NUM_INFER_EPOCHS = 3
# Shares of a cell's time limit (timeout_s). After the first share, measuring ends and the checks begin. After the
# second share, outputs are not compared any more. At the time limit itself, the record would be lost. The rest of the
# time is for the start of the device and for the end of the process.
MAX_UNTIL_MEASURED = 0.8
MAX_UNTIL_CHECKED = 0.9
# Number of steps that are timed by phase; the same number is timed as a whole.
MIN_PHASED = 3
MAX_PHASED = 200
# A breakdown is skipped if its fewest steps would take more than this share of the cell's time limit.
MAX_PHASED_SHARE = 0.1
NUM_PROFILED = 2  # a step with the profiler takes as long as this many other steps

# A clock that returns the present time in seconds.
Now = Callable[[], float]
# The number of compilations so far, and their seconds.
Compiles = tuple[int, float]


# The phases of a step's computation.
COMPUTATION = (Phase.forward, Phase.backward, Phase.optimizer)


class Step(Protocol):
    """One step of a workload, divided into the parts that are timed.

    If batches differ in size, the step also has a method `samples_of_last(num_steps)`.
    """

    # Returns the next batch, in host memory.
    def fetch(self) -> Any: ...

    # Copies a batch to the device; may return before the copy is finished.
    def copy_in(self, batch: Any) -> Any: ...

    # Launches the computation; may return before it is finished.
    def compute(self, batch: Any) -> Any: ...

    # Copies the result to the host; returns when the copy is finished.
    def copy_out(self, result: Any) -> None: ...

    # Samples of the whole batch, over all processes.
    def num_samples(self, batch: Any) -> int: ...


class Stamps(Protocol):
    """Takes an engine's time stamps between the phases of a step. Slows the step as little as the device allows."""

    # Whether the device records a step and runs it as a whole, so that its phases can't be separated.
    fused: bool

    # Returns when the device has finished everything that was launched.
    def wait(self) -> None: ...

    # Returns a stamp; the device reaches it after everything that was launched before.
    def stamp(self) -> Any: ...

    # Seconds between two stamps that the device has reached.
    def between(self, start: Any, end: Any) -> float: ...


class Ask(NamedTuple):
    """A request for several steps with one wait at the end, or for one step that is timed in parts or phases.

    A schedule of steps (clock) makes the requests. The parts are the methods of `Step`. A wait for the device follows
    each part. The phases (`cell.Phase`) divide the computation further. Time stamps separate the phases.
    """

    num_steps: int = 1
    in_parts: bool = False  # whether to wait after each part of the step
    stamps: Stamps | None = None  # if not None, they time the phases of the step
    within: AbstractContextManager[Any] | None = None  # a context for steps whose time is not used


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


@dataclass(kw_only=True)
class Timing(Times):
    """The raw times of a cell that runs."""

    compiled_in_steady_state: int = 0  # the number of compilations after the warm-up
    num_steady_steps: int = 0  # steps of the steady state, including dropped ones

    @property
    def step_s(self) -> float:
        """The median seconds of a single step. If none was timed, the median of a block's seconds / steps."""
        return median(self.latency_s or [block.step_s for block in self.blocks])

    def measured(self) -> dict[str, Any]:
        """The fields for a `Measurement`, by name."""
        return {field.name: getattr(self, field.name) for field in fields(Times)}

    def drop(self) -> None:
        """Removes all blocks, so that they can be measured again."""
        self.blocks = []
        if self.steps_are_blocks:
            for times in (self.latency_s, self.launch_s, self.data_s, self.copy_in_s, self.copy_out_s):
                times.clear()


class Limits(NamedTuple):
    """The times on the runner's clock at which parts of a cell must end (`budget_s`, `timeout_s`)."""

    # End of the cell's budget; the fewest steps that are published are measured anyway.
    budget_s: float = math.inf
    # A strict end of measuring: soon after it, the cell's process would be killed.
    timeout_s: float = math.inf
    checked_s: float = math.inf  # end of the checks after the measurement

    @classmethod
    def of(cls, cell: Cell) -> "Limits":
        """Returns the limits of a cell that begins now."""
        began_s = time.perf_counter()
        budget_s = began_s + (cell.budget_s or math.inf)
        ends = [began_s + share * cell.timeout_s for share in (MAX_UNTIL_MEASURED, MAX_UNTIL_CHECKED)]
        return cls(budget_s, *ends)

    @property
    def left_s(self) -> float:
        """Seconds left for checks."""
        return self.checked_s - time.perf_counter()


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
    limits: Limits = Limits()
    # Whether a step may return before it is finished, so that a wait after a step idles the device.
    queues: bool = True
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
            else:
                ran = self._run_free(ask)

    def why_end(self, seconds: float, step_s: float, *, is_least: bool = False) -> Stop | None:
        """Returns why there is no time for further steps. Returns None if there is time.

        Args:
            seconds: the time that the further steps would take.
            step_s: the time of each step that checks the cell after the further steps.
            is_least: whether a number can be published only after the further steps. The further steps may then exceed
                the budget, but not the time limit.
        """
        end_s = self.now() + seconds + NUM_CHECK_STEPS * step_s
        if end_s > self.limits.timeout_s:
            return Stop.timeout
        return Stop.budget if end_s > self.limits.budget_s and not is_least else None

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
        self.timing.num_steady_samples = ran.num_samples + (self.timing.num_steady_samples or 0)
        self.timing.num_steady_steps += num_steps
        return Block(num_steps=num_steps, num_samples=ran.num_samples, seconds=ran.seconds)

    def _run_free(self, ask: Ask) -> Ran:
        """Runs steps without a wait between them."""
        now, num_steps = self.now, ask.num_steps
        fetch = self.step.fetch
        copy_in = self.step.copy_in
        compute = self.step.compute
        self.ranks.begin(num_steps)
        start = now()
        with ask.within or nullcontext():
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
        return Ran(
            end - start, num_samples, launched - copied, fetched - start, copied - fetched, end - computed
        )

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


def has_time_for_phases(cell: Cell, limits: Limits, timing: Timing) -> bool:
    """Returns whether to time the phases of steps: if the cell asks for a breakdown and there is time for it."""
    if not cell.breakdown_s or cell.protocol in SERVING:
        return False
    step_s = timing.step_s
    phases_s = 2 * MIN_PHASED * step_s
    end_s = time.perf_counter() + phases_s + (NUM_PROFILED + NUM_CHECK_STEPS) * step_s
    is_short = phases_s <= MAX_PHASED_SHARE * cell.timeout_s
    return is_short and end_s <= min(limits.budget_s, limits.timeout_s)


def boot_s() -> float:
    """Returns the seconds since the machine started. All processes, including the sampler, read the same clock."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def of_window(runner: Runner, window: Window) -> Clock[Timing]:
    """Runs the warm-up, and measures blocks and single steps."""
    typical_s = yield from _warm_up(runner, window)
    with _steady(runner):
        yield from _run_blocks(runner, window, typical_s)
        yield from _run_steps(runner, window)
    return runner.timing


def of_steps(runner: Runner, warmup: int, steps: int) -> Clock[Timing]:
    """Measures `steps` steps after a warm-up of `warmup` steps, or fewer if time runs out.

    If the device queues steps, half of the steps run in blocks, and half as single steps. Blocks and single steps
    alternate. If `steps` is 1, the only step is a block.

    If the device does not queue steps, each step is timed as a single step. Successive single steps are also counted as
    a block.
    """
    timing, first = runner.timing, list[float]()
    while len(first) < warmup and not (first and _takes_too_long(runner, first)):
        seconds, _ = yield from runner.plain_step()
        first.append(seconds)
    _note_warmup(timing, first)
    timing.settled = False if len(first) < warmup else None
    timing.steps_are_blocks = not runner.queues
    num_parts = _num_parts(runner, steps)
    with _steady(runner):
        for part in range(num_parts):
            before_s = runner.measured_s
            yield from _run_part(runner, steps * (part + 1) // num_parts - steps * part // num_parts)
            step_s = timing.blocks[-1].step_s
            is_least = min(len(timing.blocks), len(timing.latency_s)) < MIN_SAMPLES
            timing.stop = runner.why_end(runner.measured_s - before_s, step_s, is_least=is_least)
            if part + 1 == num_parts:
                timing.stop = Stop.fixed
            if timing.stop is not None:
                break
    return timing


def _num_parts(runner: Runner, steps: int) -> int:
    """Returns how many parts to divide the steps into.

    A part takes about `Window.block_s`, or less if a confidence interval needs more parts.
    """
    num_blocks = steps // 2 if runner.queues else steps
    parts = math.ceil(num_blocks * runner.fastest_s / (BLOCK_MARGIN * Window.block_s))
    if not runner.fastest_s and not runner.queues:
        parts = MAX_PARTS  # each step may take long
    return max(1, min(num_blocks, max(MIN_SAMPLES, parts)))


def _run_part(runner: Runner, num_steps: int) -> Clock[None]:
    """Measures one part: a block if the device queues steps, then single steps."""
    timing, single = runner.timing, list[Block]()
    num_single = num_steps // 2 if runner.queues else num_steps
    if runner.queues:
        block = yield from runner.block(num_steps - num_single)
        timing.blocks.append(block)
    for _ in range(num_single):
        step = yield from runner.step_in_parts()
        single.append(step)
    if timing.steps_are_blocks:
        num_samples = sum(block.num_samples for block in single)
        seconds = sum(block.seconds for block in single)
        timing.blocks.append(Block(num_steps=num_single, num_samples=num_samples, seconds=seconds))


@contextmanager
def _steady(runner: Runner) -> Iterator[None]:
    """A context for measuring the steady state. Records its start and end, and compilations."""
    timing = runner.timing
    runner.begin_steady()
    num_compiled = runner.compiles()[0]
    began_boot_s = boot_s()
    yield
    timing.steady_boot_s = (began_boot_s, boot_s())
    timing.compiled_in_steady_state = runner.compiles()[0] - num_compiled


def _note_warmup(timing: Timing, steps: list[float]) -> None:
    timing.first_step_s = steps[0] if steps else None
    timing.warmup_s = steps[:MAX_WARMUP_KEPT]
    timing.warmup_total_s = sum(steps)
    timing.num_warmup_steps = len(steps)


def _warm_up(runner: Runner, window: Window) -> Clock[float]:
    """Runs steps until their times settle or time is short. Returns the typical seconds of a step."""
    timing = runner.timing
    steps = list[float]()
    began, elapsed = 0, 0.0  # the first step after the last compilation, and the seconds since then
    next_check = window.warmup_steps  # in steps
    while timing.settled is None:
        seconds, has_compiled = yield from runner.plain_step()
        steps.append(seconds)
        elapsed += seconds
        if has_compiled and len(steps) < MAX_COMPILING_STEPS:
            began = len(steps)
            elapsed = 0.0
        elif len(steps) - began >= next_check and elapsed >= window.warmup_s:
            timing.settled = _has_settled(steps[began:], elapsed, window)
            # Rarer over time, because each check sorts all steps.
            next_check = math.ceil(1.1 * (len(steps) - began))
        if timing.settled is None and _takes_too_long(runner, steps):
            timing.settled = False
    _note_warmup(timing, steps)
    typical_s = median(steps[-window.warmup_steps :])
    return typical_s if timing.settled else runner.fastest_s or typical_s


def _takes_too_long(runner: Runner, before: Sequence[float]) -> bool:
    """Returns True if the warm-up must end, because the rest of the time is needed to measure a speed."""
    if not (step_s := runner.fastest_s):
        return runner.why_end(before[-1], 0.0, is_least=True) is not None
    is_least = len(before) < LEAST_WARMUP or len(before) * step_s < Window.warmup_s
    num = (1 if is_least else MIN_SAMPLES) * (2 if runner.queues else 1)  # twice: blocks, and single steps
    return runner.why_end((1 + num) * step_s, step_s, is_least=is_least) is not None


def _has_settled(steps: Sequence[float], elapsed: float, window: Window) -> bool | None:
    """Returns True if the step times of the last third agree with those of the middle third.

    If they do not agree, returns None if the warm-up should go on, and False if it must end (see `WARMUP_STRETCH`).
    """
    num = len(steps) // 3
    if num >= 2 and order_statistics.alike(steps[-2 * num : -num], steps[-num:], SETTLED_WITHIN):
        return True
    gives_up = elapsed >= WARMUP_STRETCH * window.warmup_s and len(steps) >= 2 * window.warmup_steps
    return False if gives_up else None


def _run_blocks(runner: Runner, window: Window, typical_s: float) -> Clock[None]:
    """Measures blocks that take `block_s` or longer. All blocks have the same number of steps.

    This number is computed from the time of a step in the warm-up. Steps may be faster later. Then a block takes less
    than `block_s`, and all blocks are measured again with more steps. If only the short blocks were dropped, the result
    would be biased towards slow blocks. If anything was compiled in a block, all blocks are measured again, too.
    """
    timing, compiles = runner.timing, runner.compiles
    num_steps = max(1, math.ceil(BLOCK_MARGIN * window.block_s / max(typical_s, 1e-9)))
    for attempt in range(MAX_RESTARTS + 1):
        timing.stop = None
        timing.steps_are_blocks = num_steps == 1 and not runner.queues
        while timing.stop is None:
            compiled, _ = compiles()
            block = yield from runner.step_in_parts() if timing.steps_are_blocks else runner.block(num_steps)
            seconds = block.seconds
            has_compiled = compiles()[0] != compiled
            is_short = seconds < window.block_s
            is_least = len(timing.blocks) < MIN_SAMPLES
            end = runner.why_end(seconds, seconds / num_steps, is_least=is_least)
            is_last = attempt == MAX_RESTARTS or end is not None
            if (has_compiled or is_short) and not is_last:
                timing.drop()
                if not has_compiled:
                    factor = BLOCK_MARGIN * window.block_s / max(seconds, 1e-9)
                    num_steps = math.ceil(num_steps * max(1.1, factor))
                break
            timing.blocks.append(block)
            timing.stop = _why_stop(runner, window)
        else:
            return


def _why_stop(runner: Runner, window: Window) -> Stop | None:
    """Returns why no further block is measured. Returns None if another block should be measured."""
    timing = runner.timing
    blocks = [block.seconds for block in timing.blocks]
    elapsed = sum(blocks)
    is_least = len(blocks) < MIN_SAMPLES
    step_s = timing.blocks[-1].step_s
    next_s = blocks[-1] + (0 if timing.steps_are_blocks else min(MIN_SAMPLES, window.latency_steps)) * step_s
    if (stop := runner.why_end(next_s, step_s, is_least=is_least)) is not None:
        return stop
    if elapsed < window.measure_s or (is_least and (runner.has_least or runner.limits.budget_s < math.inf)):
        return None
    if elapsed >= STRETCH * window.measure_s:
        return Stop.limit
    width = order_statistics.half_width(blocks)
    if width is None or width <= window.width:
        return None if width is None else Stop.precise
    # The width of an interval is proportional to 1 / sqrt(number of samples).
    num_needed = len(blocks) * (width / window.width) ** 2
    num_possible = len(blocks) * STRETCH * window.measure_s / elapsed
    return (
        Stop.noisy
        if num_needed > OUT_OF_REACH * num_possible and order_statistics.noise_is_stable(blocks)
        else None
    )


def _run_steps(runner: Runner, window: Window) -> Clock[None]:
    """Measures single steps.

    If each block is a single step (`steps_are_blocks`), ends as soon as `MIN_SAMPLES` single steps were measured.
    """
    timing, elapsed = runner.timing, 0.0
    while len(timing.latency_s) < window.latency_steps:
        few = len(timing.latency_s) < MIN_SAMPLES
        most_s = 0.0 if timing.steps_are_blocks else window.latency_s
        if few:
            most_s = STRETCH * window.latency_s
        step_s = timing.blocks[-1].step_s
        if elapsed >= most_s:
            break
        if (stop := runner.why_end(step_s, step_s, is_least=few)) is not None:
            timing.stop = stop
            break
        step = yield from runner.step_in_parts()
        elapsed += step.seconds
        if timing.steps_are_blocks:
            timing.blocks.append(step)


def breakdown(stamps: Stamps, seconds: float) -> Clock[Breakdown]:
    """Times the phases of steps for at least `seconds`. The phases of a step add up to its wall time.

    After each step that is timed as a whole, one step is timed by phase. Their difference shows how much the time
    stamps slow a step down.
    """
    plain: list[float] = []
    phased: list[dict[Phase, float]] = []
    elapsed = 0.0
    while len(plain) < MIN_PHASED or (elapsed < seconds and len(plain) < MAX_PHASED):
        undivided = yield Ask()
        in_phases = yield Ask(stamps=stamps)
        plain.append(undivided.seconds + in_phases.phases_s.get(Phase.copy_out, 0.0))
        phased.append(in_phases.phases_s)
        elapsed += undivided.seconds + in_phases.seconds
    names = dict.fromkeys(phase for phases in phased for phase in phases)  # steps may differ in their phases
    phases_s = {phase: [phases.get(phase, 0.0) for phases in phased] for phase in names}
    return Breakdown(phases_s=phases_s, undisturbed_s=plain)


class EpochTime(NamedTuple):
    """The times of an epoch, in seconds."""

    seconds: float  # of the whole epoch
    first_step_s: float | None  # of the first step; None if it was not timed, or if there was no step


def time_epoch(
    step: Step, wait: Callable[[], None], now: Now = time.perf_counter, *, waits_for_first: bool = False
) -> EpochTime:
    """Runs steps until `step.fetch` raises StopIteration, then waits for the device.

    If `waits_for_first` is true, waits after the first step, too, and times this step.
    """
    first_step_s = None
    start = now()
    while True:
        try:
            batch = step.fetch()
        except StopIteration:
            break
        step.compute(step.copy_in(batch))
        if waits_for_first:
            wait()
            first_step_s = now() - start
            waits_for_first = False
    wait()
    return EpochTime(now() - start, first_step_s)
