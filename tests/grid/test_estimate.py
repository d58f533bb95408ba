"""How long cells will take, by records of cells that took a given time."""

import math
import random
from dataclasses import replace

import pytest

from accelbench.grid.estimate import (
    FACTOR,
    NUM_CHECK_STEPS,
    Evidence,
    Length,
    expected_s,
    lengths,
    read_evidence,
    total,
)
from accelbench.measuring import clock
from accelbench.measuring.breakdown import measure_breakdown
from accelbench.measuring.runner import Runner
from accelbench.schema import record as records
from accelbench.schema.cell import Window
from accelbench.schema.vocab import Mode, Precision, Protocol
from fakes import SHORT, make_cell
from grid.finished import MACHINE, OVERHEAD_S, finished, of_model

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


@pytest.mark.parametrize("seconds", [0.0005, 0.01, 0.1, 0.5, 4.0, 30.0])
@pytest.mark.parametrize("window", [Window(), Window(measure_s=0.6, latency_s=0.2)])
def test_the_steps_of_a_window_take_as_long_as_the_clock_lets_them(seconds, window):
    cell, steps = make_cell(mode=Mode.train, window=window, breakdown_s=0.3), Steps(seconds)
    clock.measure(Runner(steps, steps.wait, now=steps.now), window, steps.now)
    measure_breakdown(steps, steps, cell.breakdown_s, now=steps.now)
    expected = expected_s(cell, seconds, (0, 0)) - NUM_CHECK_STEPS[Mode.train] * seconds
    assert steps.time / 1.2 < expected < 1.2 * steps.time


def took(record):
    return pytest.approx((record.wall_s, record.wall_s))


@pytest.mark.parametrize("cell", [make_cell(), STEPS, make_cell(protocol=Protocol.fit, epochs=2, batch_size=10)])
def test_a_cell_takes_as_long_as_last_time(cell):
    seen = finished(cell, 0.05)
    assert Evidence([seen]).limits_s(cell) == took(seen)
    assert Evidence([seen]).limits_s(replace(cell, seed=1)) == took(seen)
    other = replace(STEPS, batch_size=cell.batch_size)  # a step is as long under each protocol
    assert Evidence([seen]).limits_s(other) == took(finished(other, 0.05))


def test_of_work_that_was_never_measured_the_windows_are_the_least():
    least = pytest.approx((SHORT.warmup_s + SHORT.measure_s, math.inf))
    assert Evidence().limits_s(STEPS) == (0.0, math.inf)
    assert Evidence().limits_s(make_cell()) == least
    others = [of_model("cnn"), make_cell(precision=Precision.bf16), make_cell(threads=1), make_cell(devices=2)]
    assert all(Evidence([finished()]).limits_s(other) == least for other in others)


def test_a_larger_batch_takes_at_least_as_long_and_at_most_in_proportion():
    seen = finished(replace(STEPS, batch_size=16), 0.1)
    limits = Evidence([seen]).limits_s(replace(STEPS, batch_size=32))
    assert limits == pytest.approx((seen.wall_s, 2 * seen.wall_s - OVERHEAD_S))
    limits = Evidence([seen]).limits_s(replace(STEPS, batch_size=8))
    assert limits == pytest.approx(((seen.wall_s - OVERHEAD_S) / 2 + OVERHEAD_S, seen.wall_s))


def test_cells_that_differ_widen_the_limits_and_old_cells_no_longer_count():
    walls = [finished(at_s=60.0 * number, slower=slower) for number, slower in enumerate((9.0, 1.0, 2.0, 3.0))]
    assert Evidence(walls).limits_s(make_cell()) == pytest.approx((walls[1].wall_s, walls[3].wall_s))


def test_the_first_cell_of_a_host_waits_for_its_start_which_is_no_part_of_a_cell():
    found = Evidence([finished(STEPS, 0.1, waited_s=8.0)])
    assert found.limits_s(STEPS) == took(finished(STEPS, 0.1))
    first, second = lengths([STEPS, replace(STEPS, seed=1)], found)
    assert first.estimate_s == pytest.approx(second.estimate_s + 8.0)
    assert lengths([STEPS], found, started=[replace(STEPS, batch_size=8)]) == [second]


def test_the_records_of_a_project_are_read_but_not_those_of_another_machine(tmp_path):
    elsewhere = finished(replace(STEPS, batch_size=1), environment={"machine": {"cpu_name": "another"}})
    seen = [finished(STEPS, 0.1), elsewhere]
    for number, each in enumerate(seen):
        records.write(each, tmp_path / ("runs", "results")[number] / "a")
    for number, text in enumerate(["{", "[]", "{}", '{"cell_id": 3, "wall_s": 1}']):
        (tmp_path / "runs" / "a" / f"{number:012}-00000000.json").write_text(text)
    assert read_evidence(tmp_path, MACHINE, {STEPS.id}).limits_s(STEPS) == took(seen[0])
    assert read_evidence(tmp_path, {"cpu_name": "another"}).limits_s(STEPS)[1] < math.inf
    assert read_evidence(tmp_path, {"cpu_name": "a third"}).limits_s(STEPS)[1] == math.inf


@pytest.mark.parametrize(("high", "is_known"), [(10.0, True), (22.5, True), (22.6, False), (math.inf, False)])
def test_an_estimate_is_within_its_factor_of_both_limits_or_none(high, is_known):
    found = Length(10.0, high, num=1).estimate_s
    assert (found is not None) == is_known
    assert found is None or found / FACTOR <= 10.0 <= high <= found * FACTOR


@pytest.mark.parametrize(
    ("length", "text"),
    [
        (Length(), "0 s"),
        (Length(170.0, 170.0, 12), "about 3 min"),
        (Length(0.2, 0.3, 1), "about 1 s"),
        (Length(30.0, 40.0, 12, 1), "about 35 s"),  # the others are long enough
        (Length(40.0, math.inf, 12, 5), "at least 40 s (5 cells of unknown length)"),
        (Length(0.0, math.inf, 12, 1), "unknown time (1 cell of unknown length)"),
    ],
)
def test_the_text_says_what_is_known(length, text):
    assert length.text == text
    assert text.startswith(str(length))


def test_a_total_adds_the_limits_and_a_long_known_part_makes_it_known():
    evidence = Evidence([finished(replace(STEPS, batch_size=16), 0.1)])
    known, unknown = replace(STEPS, batch_size=16), replace(STEPS, steps=1, batch_size=128)
    both = total([known, unknown], evidence, [STEPS])
    assert both == total([known], evidence, [STEPS]) + total([unknown], evidence, [STEPS])
    assert both.num_unknown == 1
    assert total([unknown], evidence, [STEPS]).estimate_s is None
    assert total([unknown, *[replace(known, seed=seed) for seed in range(5)]], evidence, [STEPS]).estimate_s
