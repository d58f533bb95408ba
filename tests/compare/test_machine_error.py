import numpy as np
import pytest

from accelbench.compare.machine_error import MIN_ROUNDS, Round, machine_error
from accelbench.compare.verdict import compare
from accelbench.stats.order_statistics import median

SLOWED = 0.05
NUM_BLOCKS = 12


class Machine:
    """Processes with the noise that was seen on two cores: between processes, within them, drift and slow bursts."""

    def __init__(self, seed, between=0.02, within=0.02, drift=0.03, bursts=0.03):
        self.dice = np.random.default_rng(seed)
        self.between, self.within, self.bursts = between, within, bursts
        self.drift, self.walk = drift, 0.0

    def process(self, slowed=0.0):
        self.walk += self.dice.normal(0, self.drift / 20)
        level = self.walk + self.dice.normal(0, self.between) + np.log(1 - slowed)
        if self.dice.random() < self.bursts:
            level -= 0.1
        return list(1000 * np.exp(level + self.dice.normal(0, self.within, NUM_BLOCKS)))

    def rounds(self, num):
        return [Round(plain=(self.process(), self.process()), slowed=self.process(slowed=SLOWED)) for _ in range(num)]


def smallest(found):
    return {each.num_processes: each.slowdown for each in found.detectable}


def tries(seed, num, slowed, num_pairs):
    """The verdict of each of fresh pairs of samples, in turns."""
    machine = Machine(seed)
    found = []
    for _ in range(num_pairs):
        sides = [], []
        for _ in range(num):
            sides[0].append(machine.process())
            sides[1].append(machine.process(slowed))
        found.append(compare(*sides))
    return found


def test_equal_processes_are_seldom_said_to_differ_and_the_figure_for_it_holds():
    assert sum(each.low > 1 or each.high < 1 for each in tries(2, 5, 0.0, 200)) <= 16
    for seed in range(4):
        false_verdicts = machine_error(Machine(seed).rounds(86), SLOWED).false_verdicts
        assert false_verdicts.low <= 0.05 <= false_verdicts.high


@pytest.mark.parametrize("num", [5, 10])
def test_the_slow_down_that_is_said_to_be_found_is_found_in_fresh_processes(num):
    checks = [machine_error(Machine(seed).rounds(86), SLOWED) for seed in range(4)]
    found = [np.mean([each.high < 1 for each in tries(9, num, smallest(check)[num], 100)]) for check in checks]
    assert np.mean(found) == pytest.approx(0.8, abs=0.1)


def test_how_often_the_slow_down_that_was_built_in_is_found():
    checks = [machine_error(Machine(seed).rounds(86), SLOWED).found for seed in range(4)]
    fresh = np.mean([each.high < 1 for each in tries(4, 5, SLOWED, 200)])
    assert np.mean(checks) == pytest.approx(fresh, abs=0.1)


def test_the_slow_down_that_was_built_in_is_measured():
    found = machine_error(Machine(5).rounds(86), SLOWED)
    assert found.measured.low < SLOWED < found.measured.high
    assert found.measured.high - found.measured.low < 0.03


def test_more_processes_find_smaller_changes():
    found = smallest(machine_error(Machine(6).rounds(60), SLOWED))
    assert found[5] > found[10] > found[20] > 0


def test_noise_between_processes_is_told_from_noise_within():
    assert machine_error(Machine(7, between=0.03, within=0.005).rounds(80), SLOWED).between > 0.9
    assert machine_error(Machine(8, between=0.0, within=0.05, bursts=0).rounds(80), SLOWED).between < 0.4


def test_a_trend_is_drift_and_no_spread():
    rounds = Machine(9, between=0.001, within=0.001, drift=0.0, bursts=0).rounds(30)
    slower = [
        Round(
            plain=tuple([rate * (1 - 0.01 * number) for rate in blocks] for blocks in each.plain),
            slowed=each.slowed,
        )
        for number, each in enumerate(rounds)
    ]
    found = machine_error(slower, SLOWED)
    assert found.drift == pytest.approx(-0.21, abs=0.03)
    assert found.spread < 0.005


def test_too_few_rounds_are_refused():
    with pytest.raises(ValueError, match="too few"):
        machine_error(Machine(0).rounds(MIN_ROUNDS - 1), SLOWED)


def test_the_same_rounds_give_the_same_figures():
    rounds = Machine(0).rounds(20)
    assert machine_error(rounds, SLOWED) == machine_error(rounds, SLOWED)
    assert median(rounds[0].plain[0]) > 0
