import pytest

from accelbench.measuring.runner import Runner
from accelbench.measuring.schedule import MAX_PHASED, MIN_PHASED, breakdown
from accelbench.schema.vocab import Phase

LENGTHS = {Phase.forward: 0.004, Phase.backward: 0.008, Phase.optimizer: 0.002}


class Device:
    """A fake device that finishes some time after the launch, and training on it. Only the test moves its clock."""

    def __init__(self, fused=False):
        self.fused, self.time, self.queue, self.mark, self.num_steps = fused, 0.0, 0.0, lambda phase: None, 0

    def now(self):
        return self.time

    def wait(self):
        self.time += self.queue
        self.queue = 0.0

    def stamp(self):
        # Like an event in a stream: its time is when the work launched so far ends.
        return self.time + self.queue

    def between(self, start, end):
        return end - start

    def fetch(self):
        self.time += 0.001

    def copy_in(self, batch):
        self.queue += 0.0005

    def compute(self, batch):
        self.num_steps += 1
        self.time += 0.0001  # time of the loop before the launch
        for phase, seconds in LENGTHS.items():
            self.queue += seconds
            self.mark(phase)
        self.time += 0.003 * self.fused  # a fused launch runs the whole step

    def copy_out(self, result):
        self.queue += 0.0003


def measured(device, seconds):
    return Runner(device, device.wait, now=device.now).drive(breakdown(device, seconds))


def test_each_phase_has_its_length_and_they_add_up_to_the_step():
    device = Device()
    measured_phases = measured(device, 0.5)
    first = {phase: seconds[0] for phase, seconds in measured_phases.phases_s.items()}
    expected = {"data_wait": 0.001, "copy_in": 0.0005, "forward": 0.0041, "backward": 0.008, "optimizer": 0.002}
    assert first == pytest.approx({**expected, "copy_out": 0.0003, "framework": 0.0}, abs=0.00011)
    assert sum(first.values()) == pytest.approx(measured_phases.undisturbed_s[0], rel=0.03)
    assert sum(measured_phases.undisturbed_s) == pytest.approx(0.25, rel=0.1)


def test_a_device_that_runs_whole_steps_has_no_phases_within():
    device = Device(fused=True)
    measured_phases = measured(device, 0.1)
    assert set(measured_phases.phases_s) == {"data_wait", "copy_in", "trace", "execute", "framework", "copy_out"}
    assert measured_phases.phases_s["execute"][0] == pytest.approx(0.003)  # launched after it was recorded
    assert device.mark(Phase.forward) is None


def test_a_slow_step_gets_its_few_and_a_fast_one_no_more_than_enough():
    device = Device()
    assert len(measured(device, 1e-9).undisturbed_s) == MIN_PHASED
    assert len(measured(device, 1e9).undisturbed_s) == MAX_PHASED
