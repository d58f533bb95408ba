"""How long cells will take, by records of cells that took a given time."""

import random
from dataclasses import replace

import pytest

from accelbench.grid.estimate import (
    FIXED_S,
    NUM_CHECK_STEPS,
    START_S,
    Evidence,
    Length,
    expected_s,
    lengths,
    read_evidence,
)
from accelbench.measuring import schedule
from accelbench.measuring.runner import Runner
from accelbench.measuring.schedule import breakdown
from accelbench.schema import record as records
from accelbench.schema.cell import Server, Window
from accelbench.schema.vocab import Mode, Precision, Protocol
from fakes import make_cell, refuse_listing
from grid.finished import MACHINE, finished, of_model

STEPS = make_cell(protocol=Protocol.steps, steps=100)


class Steps:
    """A clock, and steps of a given length that move it."""

    fused = False

    def __init__(self, seconds: float) -> None:
        self.time, self.seconds, self.random = 0.0, seconds, random.Random(0)
        self.fetch = self.num_samples = lambda *_: 1
        self.copy_in = self.copy_out = lambda batch: batch
        self.wait = self.mark = lambda *_: None
        self.now = self.stamp = lambda: self.time

    def compute(self, batch: int) -> int:
        self.time += self.seconds * self.random.uniform(0.99, 1.01)
        return batch

    def between(self, start: float, end: float) -> float:
        return end - start


def test_a_cell_that_serves_takes_its_duration_whatever_its_steps_take():
    served = make_cell(protocol=Protocol.server, server=Server(duration_s=30))
    assert Evidence().length(served).seconds == pytest.approx(30 + FIXED_S)
    after = Evidence([finished(make_cell(), 0.1)]).length(served)
    assert after.seconds == pytest.approx(30 + FIXED_S + (schedule.LEAST_WARMUP + NUM_CHECK_STEPS) * 0.1, rel=0.1)


@pytest.mark.parametrize("seconds", [0.0005, 0.01, 0.1, 0.5, 4.0, 30.0])
@pytest.mark.parametrize("window", [Window(), Window(measure_s=0.6, latency_s=0.2)])
def test_the_steps_of_a_window_take_about_as_long_as_the_clock_lets_them(seconds, window):
    cell, steps = make_cell(mode=Mode.train, window=window, breakdown_s=0.3), Steps(seconds)
    runner = Runner(steps, steps.wait, now=steps.now)
    runner.drive(schedule.of_window(runner, window))
    runner.drive(breakdown(steps, cell.breakdown_s))
    expected = expected_s(cell, seconds, (0, 0)) - NUM_CHECK_STEPS * seconds
    assert steps.time / 2 < expected < 2 * steps.time


def seconds(evidence, cell, **waits):
    found = evidence.length(cell, **waits)
    return None if found.num_unknown else pytest.approx(found.seconds)


@pytest.mark.parametrize("cell", [make_cell(), STEPS, make_cell(protocol=Protocol.fit, epochs=2, batch_size=10)])
def test_a_cell_takes_as_long_as_last_time_and_another_protocol_or_batch_as_long_as_its_steps(cell):
    seen = finished(cell, 0.05, waited_s=8.0)
    evidence = Evidence([seen])
    assert seconds(evidence, cell) == seconds(evidence, replace(cell, seed=1)) == seen.wall_s - 8.0
    for size in (cell.batch_size, 2 * cell.batch_size):
        other = replace(STEPS, batch_size=size, steps=30)
        assert seconds(evidence, other) == FIXED_S + expected_s(other, 0.05 * size / cell.batch_size, (0, 0))


def test_without_a_record_a_cell_takes_its_windows_and_epochs_and_steps_are_unknown():
    others = [of_model("cnn"), make_cell(precision=Precision.bf16), make_cell(threads=1), make_cell(devices=2)]
    for cell in others:
        assert seconds(Evidence([finished(STEPS)]), cell) == FIXED_S + expected_s(cell, 0.0, (0, 0))
    for cell in (STEPS, make_cell(protocol=Protocol.fit, mode=Mode.train)):
        assert Evidence().length(cell) == Length(0.0, 1)
    assert seconds(Evidence(), make_cell(timeout_s=0.5)) == 0.5
    assert str(Length(40.0) + Length(0.0, 3)) == "about 40 s and 3 cells of unknown length"


def test_the_first_cell_of_a_host_waits_for_its_start():
    found = Evidence([finished(STEPS, 0.1)])
    first, second = lengths([STEPS, replace(STEPS, seed=1)], found)
    assert first.seconds - START_S == pytest.approx(second.seconds)
    assert lengths([STEPS], found, started=[replace(STEPS, batch_size=8)]) == [second]


def test_the_records_of_a_project_are_read_but_not_those_of_another_machine(tmp_path, monkeypatch):
    elsewhere = finished(replace(STEPS, batch_size=1), environment={"machine": {"cpu_name": "another"}})
    seen = [finished(STEPS, 0.1), elsewhere]
    for number, each in enumerate(seen):
        records.write(each, tmp_path / ("runs", "results")[number] / "a")
    for number, text in enumerate(["{", "[]", "{}", '{"cell_id": 3, "wall_s": 1}']):
        (tmp_path / "runs" / "a" / f"{number:012}-00000000.json").write_text(text)
    assert seconds(read_evidence(tmp_path, MACHINE), STEPS) == seen[0].wall_s
    assert seconds(read_evidence(tmp_path, {"cpu_name": "another"}), STEPS) is not None
    assert seconds(read_evidence(tmp_path, {"cpu_name": "a third"}), STEPS) is None
    refuse_listing(monkeypatch, tmp_path / "results/a")
    assert seconds(read_evidence(tmp_path, MACHINE), STEPS) == seen[0].wall_s


def test_whole_epochs_take_what_the_data_set_has():
    cell = make_cell(protocol=Protocol.fit, mode=Mode.train, epochs=3, timeout_s=1e6)
    evidence = Evidence([finished(replace(STEPS, mode=Mode.train), 3.0)])
    assert seconds(evidence, cell) is None  # how many samples?
    evidence.num_samples["mnist"] = (600, 300)
    assert seconds(evidence, cell) == FIXED_S + (3 * 700 / 32 + NUM_CHECK_STEPS) * 3.0
    part = replace(cell, data=replace(cell.data, train_images=60))
    evidence.add(finished(replace(part, protocol=Protocol.steps), 3.0))
    assert seconds(evidence, part) == pytest.approx(FIXED_S + (3 * 160 / 32 + NUM_CHECK_STEPS) * 3.0)
