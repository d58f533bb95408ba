import random

import pytest

from accelbench.grid.estimate import NUM_CHECK_STEPS, expected_s, observed_s, step_s
from accelbench.measuring import clock
from accelbench.measuring.breakdown import measure_breakdown
from accelbench.measuring.runner import Runner
from accelbench.schema.cell import Window
from accelbench.schema.measurement import Breakdown, Epoch, Evaluation
from accelbench.schema.vocab import Mode, Phase, Protocol
from fakes import make_cell, make_measurement


class Steps:
    """A clock, and steps of a given length that move it."""

    def __init__(self, seconds: float) -> None:
        self.time, self.seconds, self.random = 0.0, seconds, random.Random(0)

    def now(self) -> float:
        return self.time

    def fetch(self) -> int:
        return 0

    def copy_in(self, batch: int) -> int:
        return batch

    def compute(self, batch: int) -> int:
        self.time += self.seconds * self.random.uniform(0.99, 1.01)
        return batch

    def copy_out(self, result: int) -> None:
        pass

    def num_samples(self, batch: int) -> int:
        return 1

    def wait(self) -> None:
        pass

    def stamp(self) -> float:
        return self.time

    def between(self, start: float, end: float) -> float:
        return end - start

    fused = False

    def mark(self, phase: Phase) -> None:
        pass


@pytest.mark.parametrize("seconds", [0.0005, 0.01, 0.05, 0.1, 0.2, 0.5, 1.0, 4.0, 30.0])
@pytest.mark.parametrize("window", [Window(), Window(measure_s=0.6, latency_s=0.2)])
def test_the_steps_of_a_window_take_as_long_as_the_clock_lets_them(seconds, window):
    cell, steps = make_cell(mode=Mode.train, window=window, breakdown_s=0.3), Steps(seconds)
    clock.measure(Runner(steps, steps.wait, now=steps.now), window, steps.now)
    measure_breakdown(steps, steps, cell.breakdown_s, now=steps.now)
    expected = expected_s(cell, seconds, (0, 0)) - NUM_CHECK_STEPS[Mode.train] * seconds
    assert steps.time / 1.2 < expected < 1.2 * steps.time


@pytest.mark.parametrize("mode", Mode)
def test_a_fixed_number_of_steps_and_whole_epochs_are_counted(mode):
    checks_s = 0.1 * NUM_CHECK_STEPS[mode]
    fixed = make_cell(protocol=Protocol.steps, warmup=10, steps=50, breakdown_s=0.0, mode=mode)
    assert expected_s(fixed, 0.1, (0, 0)) == pytest.approx(0.1 * (10 + 2 * 50) + checks_s)
    fit = make_cell(protocol=Protocol.fit, epochs=2, batch_size=10, mode=mode)
    # Two epochs of 100 steps, and of 30 to evaluate, which take a third; or three over the test set.
    num_steps = {Mode.train: 2 * (100 + 30 / 3), Mode.infer: 3 * 30}[mode]
    assert expected_s(fit, 0.1, (1000, 300)) == pytest.approx(0.1 * num_steps + checks_s)


def test_what_was_timed_is_the_sum_of_all_parts():
    phases = Breakdown(phases_s={Phase.forward: [1.0, 2.0], Phase.framework: [0.1, 0.2]}, undisturbed_s=[1.5])
    measured = make_measurement(warmup_total_s=0.3, latency_s=[0.01] * 5, breakdown=phases)
    assert observed_s(measured) == pytest.approx(0.3 + 8 * 0.1 + 0.05 + 3.3 + 1.5)
    tested = Evaluation(num_samples=50, seconds=0.5, loss=0.1)
    epochs = [Epoch(seconds=seconds, num_samples=100, evaluation=tested) for seconds in (5.0, 2.0)]
    assert observed_s(make_measurement(blocks=[], latency_s=[], epochs=epochs)) == pytest.approx(5 + 2 + 2 * 0.5)


def test_a_steps_length_is_that_of_the_steady_state():
    cell = make_cell(batch_size=32)
    assert step_s(cell, make_measurement()) == pytest.approx(0.01)
    epochs = [Epoch(seconds=seconds, num_samples=100) for seconds in (5.0, 2.0)]  # the first one compiles
    assert step_s(cell, make_measurement(blocks=[], epochs=epochs)) == pytest.approx(2.0 / 4)
    assert step_s(cell, make_measurement(blocks=[], epochs=[])) is None
