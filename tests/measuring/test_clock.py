import math
import random
import time
from dataclasses import replace
from statistics import median

import pytest

from accelbench.measuring import clock, stopping
from accelbench.measuring.runner import RankGroup, Timing
from accelbench.schema.cell import Window
from accelbench.schema.vocab import Stop
from accelbench.stats import order_statistics


class FakeClock:
    """A clock that only the test moves."""

    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time


class Workload:
    """Steps of known lengths on a device that returns before it is done, as a GPU does."""

    def __init__(self, now, data=0.001, copy_in=0.002, launch=0.0005, compute=0.010, copy_out=0.003, batch=4):
        self.now, self.batch = now, batch
        self.data, self.copy, self.launch, self.work, self.out = data, copy_in, launch, compute, copy_out
        self.queue = 0.0  # seconds of work launched and not yet done
        self.num_computed = 0
        self.compiles = 0
        self.compile_steps = 0

    def spend(self, seconds):
        self.now.time += seconds
        self.queue = max(0.0, self.queue - seconds)

    def fetch(self):
        self.spend(self.data)
        return self.num_computed

    def copy_in(self, batch):
        self.queue += self.copy
        return batch

    def compute(self, batch):
        if self.num_computed < self.compile_steps:
            self.compiles += 1
            self.spend(5.0)
        self.spend(self.launch)
        self.queue += self.work
        self.num_computed += 1
        return batch

    def copy_out(self, result):
        self.wait()
        self.spend(self.out)

    def num_samples(self, batch):
        return self.batch

    def wait(self):
        self.now.time += self.queue
        self.queue = 0.0

    def num_compiles(self):
        return self.compiles, 5.0 * self.compiles


WINDOW = Window(warmup_steps=3, warmup_s=0.05, measure_s=1.0, block_s=0.1, latency_s=0.5, latency_steps=20)


def run(workload, window=WINDOW):
    return clock.measure(workload, workload.wait, window, workload.num_compiles, workload.now)


@pytest.fixture
def workload():
    return Workload(FakeClock())


def test_a_device_that_returns_before_it_is_done_is_measured_whole(workload):
    timing = run(workload)
    rate = sum(b.num_samples for b in timing.blocks) / sum(b.seconds for b in timing.blocks)
    # The host's 1.5 ms a step hide behind the device's 12 ms.
    assert rate == pytest.approx(4 / 0.012, rel=0.02)


def test_each_part_of_a_step_is_timed(workload):
    timing = run(workload)
    assert timing.data_s == pytest.approx([0.001] * 20)
    assert timing.copy_in_s == pytest.approx([0.002] * 20)
    assert timing.launch_s == pytest.approx([0.0005] * 20)
    assert timing.copy_out_s == pytest.approx([0.003] * 20)
    assert timing.latency_s == pytest.approx([0.0165 - 0.0005 + 0.0005] * 20, rel=0.04)


def test_blocks_are_at_least_as_long_as_asked_and_none_is_dropped(workload):
    timing = run(workload)
    assert len(timing.blocks) >= clock.MIN_SAMPLES
    assert len({block.num_steps for block in timing.blocks}) == 1
    assert all(block.seconds >= WINDOW.block_s for block in timing.blocks)
    assert sum(block.seconds for block in timing.blocks) >= WINDOW.measure_s


def test_a_disturbed_start_does_not_leave_short_blocks(workload):
    def compute(batch):
        # Five times slower through the warm-up and the first block, as beside another program.
        workload.work = 0.050 if workload.num_computed < 6 else 0.010
        return type(workload).compute(workload, batch)

    workload.compute = compute
    timing = run(workload)
    assert all(block.seconds >= WINDOW.block_s for block in timing.blocks)
    assert len(timing.blocks) >= clock.MIN_SAMPLES


def noisy(workload, rng, sigma, related=0.0):
    """Makes the lengths of the workload's steps vary; `related` is their correlation from step to step."""
    level = 0.0

    def compute(batch):
        nonlocal level
        level = related * level + math.sqrt(1 - related**2) * rng.gauss(0, 1)
        workload.work = 0.1 * math.exp(sigma * level)
        return type(workload).compute(workload, batch)

    workload.compute = compute
    return workload


LONG_STEPS = Window(warmup_steps=4, warmup_s=0.2, measure_s=1.0, block_s=0.05, latency_s=0.1, latency_steps=6)


def test_an_even_speed_stops_at_the_asked_width(workload):
    timing = run(workload)
    assert timing.settled
    assert timing.stop == Stop.precise
    assert sum(block.seconds for block in timing.blocks) < 1.3


def test_an_uneven_speed_is_measured_for_longer():
    workload = noisy(Workload(FakeClock()), random.Random(2), 0.015)
    timing = run(workload, LONG_STEPS)
    assert timing.stop in (Stop.precise, Stop.limit)
    assert len(timing.blocks) > 10


def test_noise_that_can_not_be_averaged_away_in_time_stops_the_blocks():
    workload = noisy(Workload(FakeClock()), random.Random(1), 0.5)
    timing = run(workload, LONG_STEPS)
    assert timing.stop == Stop.noisy
    assert sum(block.seconds for block in timing.blocks) < 3


@pytest.mark.parametrize("related", [0.0, 0.4])
@pytest.mark.parametrize("sigma", [0.01, 0.03, 0.1])
def test_stopping_when_it_looks_exact_keeps_the_intervals_honest(sigma, related):
    rng, held = random.Random(11), 0
    for _ in range(400):
        timing = run(noisy(Workload(FakeClock(), data=0, copy_in=0, launch=0), rng, sigma, related), LONG_STEPS)
        low, high = order_statistics.median_interval([block.seconds for block in timing.blocks])
        held += low <= 0.1 <= high
    assert held / 400 >= 0.93


def test_warm_up_goes_on_until_step_times_have_settled(workload):
    def compute(batch):
        # A machine that needs 40 steps to get going.
        workload.work = 0.010 * (1 + 2 * max(0, 40 - workload.num_computed) / 40)
        return type(workload).compute(workload, batch)

    workload.compute = compute
    timing = run(workload, replace(WINDOW, warmup_s=0.3))
    assert timing.settled
    assert timing.num_warmup_steps >= 40
    assert timing.blocks[0].seconds == pytest.approx(timing.blocks[-1].seconds, rel=0.05)


def test_step_times_that_never_settle_are_measured_and_noted(workload):
    def compute(batch):
        workload.work = 0.010 * 1.02**workload.num_computed
        return type(workload).compute(workload, batch)

    workload.compute = compute
    timing = run(workload, replace(WINDOW, warmup_s=0.3))
    assert timing.settled is False
    assert timing.warmup_total_s < 1.5 * stopping.WARMUP_STRETCH * 0.3


def test_a_block_in_which_something_was_compiled_is_measured_again(workload):
    def compute(batch):
        if workload.num_computed == 30:
            workload.compiles += 1
            workload.spend(5.0)
        return type(workload).compute(workload, batch)

    workload.compute = compute
    timing = run(workload)
    assert timing.compiled_in_steady_state == 1
    assert max(block.seconds for block in timing.blocks) < 1


def test_a_clock_that_drifts_is_found(workload):
    timing = clock.measure(
        workload, workload.wait, WINDOW, now=workload.now, reference=lambda: 100 + workload.now.time / 1.01
    )
    assert timing.clock_drift == pytest.approx(0.01, rel=0.01)


def test_compilation_stays_out_of_the_steady_state(workload):
    workload.compile_steps = 2
    timing = run(workload)
    assert timing.first_step_s > 5
    assert sum(seconds < 1 for seconds in timing.warmup_s) >= WINDOW.warmup_steps
    assert max(timing.latency_s) < 1
    assert timing.compiled_in_steady_state == 0


def test_a_long_warm_up_keeps_its_first_steps_and_its_whole_length(workload):
    timing = run(workload, replace(WINDOW, warmup_s=5.0))
    assert len(timing.warmup_s) == clock.MAX_WARMUP_KEPT
    assert timing.warmup_total_s == pytest.approx(5.0, abs=0.05)
    assert timing.warmup_total_s > sum(timing.warmup_s)


def test_an_engine_that_compiles_every_step_is_measured_and_noted(workload):
    workload.compile_steps = 10**9
    timing = run(workload)
    num_measured = sum(block.num_steps for block in timing.blocks) + len(timing.latency_s)
    assert timing.compiled_in_steady_state >= num_measured


def test_a_slow_step_still_gets_the_samples_that_an_interval_needs():
    workload = Workload(FakeClock(), compute=0.3)
    timing = run(workload)
    assert len(timing.blocks) >= clock.MIN_SAMPLES
    assert timing.blocks[0].num_steps == 1


def test_a_very_slow_step_ends_at_three_times_the_window():
    workload = Workload(FakeClock(), compute=2.0)
    timing = run(workload)
    assert sum(block.seconds for block in timing.blocks) < 3 * WINDOW.measure_s + 2.1


def test_a_fixed_number_of_steps_is_just_that(workload):
    timing = clock.measure_steps(workload, workload.wait, 10, 25, workload.num_compiles, workload.now)
    assert len(timing.warmup_s) == 10
    assert sum(block.num_steps for block in timing.blocks) == 25
    assert len(timing.blocks) == clock.NUM_PARTS
    assert len(timing.latency_s) == 25
    assert workload.num_computed == 10 + 25 + 25
    rate = sum(b.num_samples for b in timing.blocks) / sum(b.seconds for b in timing.blocks)
    assert rate == pytest.approx(4 / 0.012, rel=0.15)  # a block of few steps waits for its first copy and last step


def test_one_step_without_a_warm_up_computes_once(workload):
    timing = clock.measure_steps(workload, workload.wait, 0, 1, workload.num_compiles, workload.now)
    assert workload.num_computed == 1
    assert [block.num_steps for block in timing.blocks] == [1]
    assert (timing.latency_s, timing.warmup_s, timing.first_step_s) == ([], [], None)


def test_an_epoch_is_timed_to_the_end_of_its_last_step(workload):
    batches = iter(range(7))
    workload.fetch = lambda: next(batches)
    took = clock.time_epoch(workload, workload.wait, workload.now)
    assert took.seconds == pytest.approx(7 * 0.012 + 0.0005, rel=0.05)
    assert workload.num_computed == 7
    assert took.first_step_s is None


def test_an_epochs_time_to_get_its_batches_is_known(workload):
    batches = iter(range(7))
    fetch = workload.fetch
    workload.fetch = lambda: next(batches) if fetch() is not None else None
    took = clock.time_epoch(workload, workload.wait, workload.now)
    assert took.data_s == pytest.approx(7 * 0.001)
    assert took.data_s < took.seconds / 10


def test_the_first_step_of_the_first_epoch_is_waited_for_and_no_other():
    workload = Workload(FakeClock())
    workload.compile_steps = 1
    timing = Timing()
    fetch = workload.fetch
    for _ in range(2):
        batches = iter(range(7))
        workload.fetch = lambda batches=batches: (next(batches), fetch())
        _, took = clock.measure_epoch(timing, workload, workload.wait, workload.num_compiles, workload.now)
    assert timing.first_step_s == pytest.approx(0.001 + 5 + 0.0005 + 0.010)  # it copies while it compiles
    assert took.first_step_s is None
    assert took.seconds == pytest.approx(7 * 0.012 + 0.0005, rel=0.05)  # without a wait in between


def test_injected_sleeps_are_recovered_within_two_percent():
    slept = {"fetch": [], "compute": [], "copy_out": []}

    def sleep(name, seconds):
        # A sleep ends late, on a busy machine by milliseconds: the truth is how long it really took.
        start = time.perf_counter()
        time.sleep(seconds)
        slept[name].append(time.perf_counter() - start)

    class Sleeper(Workload):
        def fetch(self):
            sleep("fetch", 0.004)

        def copy_in(self, batch):
            return batch

        def compute(self, batch):
            sleep("compute", 0.016)

        def copy_out(self, result):
            sleep("copy_out", 0.002)

    timing = clock.measure(Sleeper(None), lambda: None, WINDOW)
    num, per_block = len(timing.latency_s), timing.blocks[0].num_steps
    steps = [sum(parts) for parts in zip(slept["fetch"][:-num], slept["compute"][:-num], strict=True)]
    in_blocks = steps[-per_block * len(timing.blocks) :]
    truths = [sum(in_blocks[i : i + per_block]) for i in range(0, len(in_blocks), per_block)]

    def typical_ratio(measured, true):
        # A median: the process may lose its core between a sleep and the clock.
        return median(one / other for one, other in zip(measured, true, strict=True))

    assert typical_ratio([block.seconds for block in timing.blocks], truths) == pytest.approx(1, rel=0.02)
    assert typical_ratio(timing.data_s, slept["fetch"][-num:]) == pytest.approx(1, rel=0.02)
    assert typical_ratio(timing.launch_s, slept["compute"][-num:]) == pytest.approx(1, rel=0.02)
    assert typical_ratio(timing.copy_out_s, slept["copy_out"]) == pytest.approx(1, rel=0.02)


class Slow(RankGroup):
    """Other ranks that finish `seconds` after this one; counts the steps that were announced to them."""

    def __init__(self, now, seconds):
        self.now, self.seconds = now, seconds
        self.num_steps, self.waiting = 0, False

    def begin(self, num_steps):
        assert not self.waiting
        self.num_steps, self.waiting = self.num_steps + num_steps, True

    def end(self):
        assert self.waiting
        self.now.time += self.seconds
        self.waiting = False


def test_other_processes_take_every_step_and_the_slowest_ends_it(workload):
    ranks = Slow(workload.now, 0.005)
    timing = clock.measure(workload, workload.wait, WINDOW, workload.num_compiles, workload.now, ranks=ranks)
    assert ranks.num_steps == workload.num_computed
    assert not ranks.waiting
    alone = run(Workload(FakeClock()))
    assert median(timing.latency_s) == pytest.approx(median(alone.latency_s) + 0.005)
    assert timing.first_step_s == pytest.approx(alone.first_step_s + 0.005)
    for block in timing.blocks:
        assert block.seconds == pytest.approx(block.num_steps * 0.012 + 0.0015 + 0.005, rel=0.01)


def test_other_processes_take_a_fixed_number_of_steps_too(workload):
    ranks = Slow(workload.now, 0.005)
    clock.measure_steps(workload, workload.wait, 3, 12, workload.num_compiles, workload.now, ranks=ranks)
    assert ranks.num_steps == workload.num_computed == 3 + 12 + 12


def test_the_warm_up_of_slow_steps_gives_up_after_its_fewest_steps():
    workload = Workload(FakeClock(), compute=2.0)
    window = Window(warmup_steps=1, warmup_s=0.05, measure_s=0.1, block_s=0.02, latency_s=0.0, latency_steps=0)
    timing = run(workload, window)
    assert timing.settled is False
    assert (timing.num_warmup_steps, len(timing.blocks), timing.blocks[0].num_steps) == (2, 1, 1)
