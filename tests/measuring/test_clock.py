import math
import random
from dataclasses import replace

import pytest

from accelbench.measuring import clock
from accelbench.measuring.clock import MAX_PHASED, MIN_PHASED, NUM_CHECK_STEPS, Limits, Runner, breakdown
from accelbench.schema.cell import Phase, Stop, Window
from accelbench.stats import order_statistics
from marks import slow


class Workload:
    """Steps of known lengths on a fake device with a fake clock.

    It returns before a step is finished, like a GPU, unless it does not queue steps, like a CPU.
    """

    def __init__(self, data=0.001, copy_in=0.002, launch=0.0005, compute=0.010, copy_out=0.003, queues=True):
        self.queues = queues
        self.data, self.copy, self.launch, self.out = data, copy_in, launch, copy_out
        self.length_of = lambda num: compute  # of the step after `num` others
        self.time = self.queue = 0.0  # seconds passed; seconds of launched work left
        self.num_computed = self.compiles = 0
        self.change = lambda: None  # called before each step

    def now(self):
        return self.time

    def spend(self, seconds):
        self.time += seconds
        self.queue = max(0.0, self.queue - seconds)

    def fetch(self):
        self.spend(self.data)
        return self.num_computed

    def copy_in(self, batch):
        self.queue += self.copy
        return batch

    def compile(self):
        self.compiles += 1
        self.spend(5.0)

    def compute(self, batch):
        self.change()
        self.spend(self.launch)
        self.queue += self.length_of(self.num_computed)
        self.num_computed += 1
        if not self.queues:
            self.wait()
        return batch

    def copy_out(self, result):
        self.wait()
        self.spend(self.out)

    def num_samples(self, batch):
        return 4

    def wait(self):
        self.time += self.queue
        self.queue = 0.0

    def stamp(self):
        # Like an event in a stream: its time is when the work launched so far ends.
        return self.time + self.queue

    def between(self, start, end):
        return end - start

    def num_compiles(self):
        return self.compiles, 5.0 * self.compiles


WINDOW = Window(warmup_steps=3, warmup_s=0.05, measure_s=1.0, block_s=0.1, latency_s=0.5, latency_steps=20)


def run(workload, plan=WINDOW, **more):
    """Measures for a window, or for numbers of steps of the warm-up and after it."""
    runner = Runner(workload, workload.wait, workload.num_compiles, workload.now, queues=workload.queues, **more)
    return runner.drive(clock.of_window(runner, plan) if isinstance(plan, Window) else clock.of_steps(runner, *plan))


def rate_of(timing):
    return sum(block.num_samples for block in timing.blocks) / sum(block.seconds for block in timing.blocks)


@pytest.fixture
def workload():
    return Workload()


def test_an_even_speed_is_measured_whole_and_stops_at_the_asked_width_with_each_part_of_a_step_timed(workload):
    timing = run(workload)
    assert rate_of(timing) == pytest.approx(4 / 0.012, rel=0.02)  # 1.5 ms on the host overlap with the device's 12 ms
    parts = (timing.data_s, timing.copy_in_s, timing.launch_s, timing.copy_out_s)
    for part, seconds in zip(parts, (0.001, 0.002, 0.0005, 0.003), strict=True):
        assert part == pytest.approx([seconds] * 20)
    assert timing.latency_s == pytest.approx([0.0165] * 20, rel=0.04)
    assert (timing.settled, timing.stop, len({block.num_steps for block in timing.blocks})) == (True, Stop.precise, 1)
    assert WINDOW.measure_s <= sum(block.seconds for block in timing.blocks) < 1.3


def test_blocks_are_at_least_as_long_as_asked_and_none_is_dropped(workload):
    workload.length_of = lambda num: 0.050 if num < 6 else 0.010  # slow during warm-up and first block
    timing = run(workload)
    assert all(block.seconds >= WINDOW.block_s for block in timing.blocks)
    assert len(timing.blocks) >= clock.MIN_SAMPLES


def noisy(workload, rng, sigma, related=0.0):
    """Makes the lengths of the steps vary. `related` is the correlation of successive steps."""
    level = 0.0

    def length_of(num):
        nonlocal level
        level = related * level + math.sqrt(1 - related**2) * rng.gauss(0, 1)
        return 0.1 * math.exp(sigma * level)

    workload.length_of = length_of
    return workload


LONG_STEPS = Window(warmup_steps=4, warmup_s=0.2, measure_s=1.0, block_s=0.05, latency_s=0.1, latency_steps=6)


@pytest.mark.parametrize(
    ("sigma", "seed", "stops", "blocks"), [(0.015, 2, (Stop.precise, Stop.limit), 10), (0.5, 1, (Stop.noisy,), 5)]
)
def test_an_uneven_speed_is_measured_for_longer_unless_that_does_not_help(sigma, seed, stops, blocks):
    timing = run(noisy(Workload(), random.Random(seed), sigma), LONG_STEPS)
    assert timing.stop in stops
    assert len(timing.blocks) > blocks
    assert timing.stop != Stop.noisy or sum(block.seconds for block in timing.blocks) < 3


@pytest.mark.parametrize("related", [slow(0.0), 0.4])
@pytest.mark.parametrize("sigma", [slow(0.01), 0.03, slow(0.1)])
def test_stopping_when_it_looks_exact_keeps_the_intervals_honest(sigma, related):
    rng, held = random.Random(11), 0
    for _ in range(400):
        timing = run(noisy(Workload(data=0, copy_in=0, launch=0), rng, sigma, related), LONG_STEPS)
        low, high = order_statistics.Sample([block.seconds for block in timing.blocks]).percentile_interval(50)
        held += low <= 0.1 <= high
    assert held / 400 >= 0.93


@pytest.mark.parametrize("settles", [True, False])
def test_warm_up_goes_on_until_step_times_have_settled_or_never_will(workload, settles):
    # A machine that is slow for 40 steps, and one that becomes slower all the time.
    starting, slowing = (lambda num: 0.010 + 0.020 * max(0, 40 - num) / 40), (lambda num: 0.010 * 1.02**num)
    workload.length_of = starting if settles else slowing
    timing = run(workload, replace(WINDOW, warmup_s=0.3))
    assert timing.settled is settles
    if settles:
        assert timing.num_warmup_steps >= 40
        assert timing.blocks[0].seconds == pytest.approx(timing.blocks[-1].seconds, rel=0.05)
    assert timing.warmup_total_s < 1.5 * clock.WARMUP_STRETCH * 0.3


def test_compilation_stays_out_of_the_steady_state_and_a_block_with_it_is_measured_again(workload):
    workload.change = lambda: workload.compile() if workload.num_computed < 2 else None
    timing = run(workload)
    assert timing.first_step_s > 5
    assert sum(seconds < 1 for seconds in timing.warmup_s) >= WINDOW.warmup_steps
    assert max(timing.latency_s) < 1
    assert timing.compiled_in_steady_state == 0
    last = workload.num_computed + 30
    workload.change = lambda: workload.compile() if workload.num_computed == last else None
    timing = run(workload)
    assert timing.compiled_in_steady_state == 1
    assert max(block.seconds for block in timing.blocks) < 1
    workload.change = workload.compile  # a cell that compiles in every step is measured too
    timing = run(workload)
    assert timing.compiled_in_steady_state >= sum(block.num_steps for block in timing.blocks) + len(timing.latency_s)


@pytest.mark.parametrize("queues", [True, False])
@pytest.mark.parametrize("steps", [2, 25, 120])
def test_a_fixed_number_of_steps_is_just_that(queues, steps):
    workload = Workload(queues=queues)
    timing = run(workload, (10, steps))
    assert (workload.num_computed, len(timing.warmup_s), timing.stop) == (10 + steps, 10, Stop.fixed)
    counts = len(timing.latency_s), sum(block.num_steps for block in timing.blocks)
    assert counts == ((steps, steps) if timing.steps_are_blocks else pytest.approx((steps / 2, steps / 2), abs=8))
    assert timing.steps_are_blocks is not queues
    assert len(timing.blocks) >= min(clock.MIN_SAMPLES, steps // 2)
    # On a device that queues, a short block waits for its first copy and its last step.
    alone_s = 0.0165 if timing.steps_are_blocks else 0.012
    assert steps == 2 or rate_of(timing) == pytest.approx(4 / alone_s, rel=0.2)


def test_one_step_without_a_warm_up_computes_once(workload):
    timing = run(workload, (0, 1))
    assert workload.num_computed == 1
    assert [block.num_steps for block in timing.blocks] == [1]
    assert (timing.latency_s, timing.warmup_s, timing.first_step_s) == ([], [], None)


@pytest.mark.parametrize("queues", [True, False])
@pytest.mark.parametrize("plan", [replace(WINDOW, measure_s=100.0, latency_s=100.0), (10, 1000)])
@pytest.mark.parametrize(
    ("step_s", "limits", "stop"),
    [
        (0.5, Limits(timeout_s=15.0), Stop.timeout),
        (0.5, Limits(budget_s=15.0), Stop.budget),
        (4.0, Limits(timeout_s=60.0), Stop.timeout),
        (4.0, Limits(budget_s=15.0), Stop.budget),
        (20.0, Limits(timeout_s=130.0), Stop.timeout),
    ],
)
def test_slow_steps_end_in_time_and_a_budget_leaves_the_fewest_that_are_published(queues, plan, step_s, limits, stop):
    workload = Workload(compute=step_s, queues=queues)
    timing = run(workload, plan, limits=limits)
    assert (timing.stop, len(timing.blocks) > 0) == (stop, True)
    if limits.budget_s == 15.0 and step_s == 4.0:
        assert (timing.num_warmup_steps, len(timing.blocks), len(timing.latency_s)) == (2, 6, 6)
    else:
        assert workload.time + NUM_CHECK_STEPS * step_s <= min(limits)
        assert min(len(timing.blocks), len(timing.latency_s)) >= clock.MIN_SAMPLES or step_s > 1


@pytest.mark.parametrize(
    ("compiles", "seconds", "first_s"),
    [(False, 7 * 0.012 + 0.0005, None), (True, 5 + 7 * 0.012 - 0.002, 0.001 + 5 + 0.0005 + 0.010)],
)
def test_an_epoch_is_timed_to_the_end_of_its_last_step_and_of_its_first_if_asked(workload, compiles, seconds, first_s):
    batches, fetch = iter(range(7)), workload.fetch
    workload.fetch = lambda: (next(batches), fetch())
    workload.change = lambda: workload.compile() if compiles and workload.num_computed == 0 else None
    took = clock.time_epoch(workload, workload.wait, workload.now, waits_for_first=compiles)
    assert took.seconds == pytest.approx(seconds, rel=0.05)
    assert took.first_step_s == (first_s and pytest.approx(first_s))  # copies overlap with compilation
    assert workload.num_computed == 7


# The phases of steps.

LENGTHS = {Phase.forward: 0.004, Phase.backward: 0.008, Phase.optimizer: 0.002}


class Training(Workload):
    """Steps of training with phases. If `fused`, the device records a step and then runs it as a whole."""

    def __init__(self, fused=False):
        super().__init__(copy_in=0.0005, copy_out=0.0003)
        self.fused, self.mark = fused, lambda phase: None

    def compute(self, batch):
        for phase, seconds in LENGTHS.items():
            self.queue += seconds
            self.mark(phase)
        self.time += 0.003 * self.fused


def phases_of(device, seconds):
    return Runner(device, device.wait, now=device.now).drive(breakdown(device, seconds))


def test_each_phase_has_its_length_and_they_add_up_to_the_step():
    measured_phases = phases_of(Training(), 0.5)
    first = {phase: seconds[0] for phase, seconds in measured_phases.phases_s.items()}
    lengths = {"data_wait": 0.001, "copy_in": 0.0005, **LENGTHS, "copy_out": 0.0003, "framework": 0.0}
    assert first == pytest.approx(lengths, abs=0.00011)
    assert sum(first.values()) == pytest.approx(measured_phases.undisturbed_s[0], rel=0.03)
    assert sum(measured_phases.undisturbed_s) == pytest.approx(0.25, rel=0.1)


def test_a_device_that_runs_whole_steps_has_no_phases_within():
    device = Training(fused=True)
    measured_phases = phases_of(device, 0.1)
    assert set(measured_phases.phases_s) == {"data_wait", "copy_in", "trace", "execute", "framework", "copy_out"}
    assert measured_phases.phases_s["execute"][0] == pytest.approx(0.003)  # launched after it was recorded
    assert device.mark(Phase.forward) is None


def test_a_slow_step_gets_its_few_and_a_fast_one_no_more_than_enough():
    assert len(phases_of(Training(), 1e-9).undisturbed_s) == MIN_PHASED
    assert len(phases_of(Training(), 1e9).undisturbed_s) == MAX_PHASED
