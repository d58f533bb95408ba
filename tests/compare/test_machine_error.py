import numpy as np
import pytest

from accelbench.compare.machine_error import MIN_ROUNDS, Round, machine_error
from compare.conftest import compare

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


def tries(seed, num, slowed, num_pairs):
    """The verdict of each of fresh pairs of samples, in turns."""
    machine, found = Machine(seed), []
    for _ in range(num_pairs):
        turns = [(machine.process(), machine.process(slowed)) for _ in range(num)]
        found.append(compare(*zip(*turns, strict=True)))
    return found


def check(seed):
    """What a machine with this noise says of itself."""
    return machine_error(Machine(seed).rounds(86), SLOWED)


@pytest.mark.slow
def test_what_is_said_of_false_and_found_differences_holds_for_fresh_processes():
    checks = [check(seed) for seed in range(4)]
    assert sum(each.measured.low < SLOWED < each.measured.high for each in checks) >= 3
    assert sum(each.low > 1 or each.high < 1 for each in tries(2, 5, 0.0, 200)) <= 16
    assert all(check.false_verdicts.low <= 0.05 <= check.false_verdicts.high for check in checks)
    for place, num in enumerate((5, 10)):
        assert {check.detectable[place].num_processes for check in checks} == {num}
        found = [[each.high < 1 for each in tries(9, num, check.detectable[place].slowdown, 100)] for check in checks]
        assert np.mean(found) == pytest.approx(0.8, abs=0.1)


def test_the_slow_down_that_was_built_in_is_measured_and_more_processes_find_smaller_ones():
    found = check(0)
    assert found.measured.low < SLOWED < found.measured.high < found.measured.low + 0.03
    with pytest.raises(ValueError, match="too few"):
        machine_error(Machine(1).rounds(MIN_ROUNDS - 1), SLOWED)
    smallest = [each.slowdown for each in found.detectable]
    assert smallest == sorted(smallest, reverse=True)
    assert smallest[-1] > 0
