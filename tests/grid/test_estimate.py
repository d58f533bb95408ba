"""How long cells will take, by records of cells that took a given time."""

import math
import os
import random
from dataclasses import replace

import pytest

from accelbench.grid import estimate
from accelbench.grid.estimate import (
    FACTOR,
    NUM_CHECK_STEPS,
    START_S,
    Evidence,
    Length,
    expected_s,
    lengths,
    observed_s,
    read_evidence,
    step_s,
    total,
)
from accelbench.measuring import clock
from accelbench.measuring.breakdown import measure_breakdown
from accelbench.measuring.runner import Runner
from accelbench.schema import record as records
from accelbench.schema.cell import Window
from accelbench.schema.measurement import Breakdown, Epoch, Evaluation
from accelbench.schema.vocab import Engine, Mode, Phase, Precision, Protocol, Status
from fakes import SHORT, make_cell, make_measurement
from grid.finished import MACHINE, NUM_SAMPLES, OVERHEAD_S, finished, of_model

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


def test_a_cell_takes_as_long_as_last_time():
    for cell in (make_cell(), STEPS, make_cell(protocol=Protocol.fit, epochs=2)):
        seen = finished(cell, 0.05)
        assert Evidence([seen]).limits_s(cell) == pytest.approx((seen.wall_s, seen.wall_s))
        assert Evidence([seen]).limits_s(replace(cell, seed=1)) == pytest.approx((seen.wall_s, seen.wall_s))


def test_of_work_that_was_never_measured_the_windows_are_the_least():
    least = (SHORT.warmup_s + SHORT.measure_s, math.inf)
    assert Evidence().limits_s(make_cell()) == pytest.approx(least)
    assert Evidence().limits_s(STEPS) == (0.0, math.inf)
    measured = Evidence([finished()])
    assert measured.limits_s(of_model("cnn")) == pytest.approx(least)
    for other in ({"precision": Precision.bf16}, {"threads": 1}, {"devices": 2}):
        assert not measured.has_same_work(make_cell(**other))
        assert measured.limits_s(make_cell(**other)) == pytest.approx(least)


def test_a_larger_batch_takes_at_least_as_long_and_at_most_in_proportion():
    seen = finished(replace(STEPS, batch_size=16), 0.1)
    low, high = Evidence([seen]).limits_s(replace(STEPS, batch_size=32))
    assert low == pytest.approx(seen.wall_s)
    assert high == pytest.approx(2 * seen.wall_s - OVERHEAD_S)
    low, high = Evidence([seen]).limits_s(replace(STEPS, batch_size=8))
    assert low == pytest.approx((seen.wall_s - OVERHEAD_S) / 2 + OVERHEAD_S)
    assert high == pytest.approx(seen.wall_s)


def test_a_smaller_and_a_larger_batch_give_narrower_limits():
    seen = [finished(replace(STEPS, batch_size=size), one_s) for size, one_s in ((8, 0.1), (32, 0.15))]
    low, high = Evidence(seen).limits_s(replace(STEPS, batch_size=16))
    assert (low, high) == pytest.approx((seen[0].wall_s, seen[1].wall_s))


@pytest.mark.parametrize("step_s", [0.001, 0.3, 4.0])
@pytest.mark.parametrize("cell", [make_cell(window=Window()), STEPS, make_cell(protocol=Protocol.fit, epochs=3)])
def test_a_step_is_as_long_under_each_protocol(step_s, cell):
    seen = finished(make_cell(window=Window(measure_s=0.3)), step_s)
    expected = expected_s(cell, step_s, NUM_SAMPLES) + OVERHEAD_S
    assert Evidence([seen]).limits_s(cell) == pytest.approx((expected, expected), rel=0.01)


def test_cells_that_differ_and_other_processes_widen_the_limits_and_old_cells_no_longer_count():
    walls = [finished(at_s=60.0 * number, slower=slower) for number, slower in enumerate((9.0, 1.0, 2.0, 3.0))]
    assert Evidence(walls).limits_s(make_cell()) == pytest.approx((walls[1].wall_s, walls[3].wall_s))
    seen = finished(STEPS, 0.1, others=100.0)  # half of two threads
    assert Evidence([seen]).limits_s(STEPS) == pytest.approx((seen.wall_s / 2, 2 * seen.wall_s))


def test_the_wait_for_a_host_is_no_part_of_a_cell():
    seen = [finished(STEPS, 0.1, at_s=0.0, waited_s=8.0), finished(replace(STEPS, seed=1), 0.1, at_s=30.0)]
    found = Evidence(seen)
    assert found.limits_s(STEPS) == pytest.approx((seen[1].wall_s, seen[1].wall_s))
    assert found.start_s(STEPS) == pytest.approx((8.0, 8.0))
    assert found.start_s(make_cell(engine=Engine.lightning, model=replace(STEPS.model, library="timm"))) == START_S


def test_after_the_machine_started_again_its_clock_begins_anew():
    first = [finished(STEPS, 0.1, at_s=0.0, waited_s=8.0), finished(STEPS, 0.1, at_s=30.0)]
    later = [finished(STEPS, 0.1, at_s=at_s, waited_s=waited_s) for at_s, waited_s in ((9000.0, 6.0), (9020.0, 0.0))]
    restarted = [
        replace(each, system=replace(each.system, started_boot_s=each.system.started_boot_s - 8000.0)) for each in later
    ]
    found = Evidence([*first, *restarted])
    assert found.start_s(STEPS) == pytest.approx((7.0, 7.0))
    assert found.limits_s(STEPS) == pytest.approx((first[1].wall_s,) * 2)


def test_other_models_that_took_about_as_long_are_evidence():
    seen = [finished(of_model(name), slower=slower) for name, slower in (("a", 1.0), ("b", 1.2), ("c", 1.5))]
    assert Evidence(seen[:2]).limits_s(make_cell())[1] == math.inf
    low, high = Evidence(seen).limits_s(make_cell())
    assert (low, high) == pytest.approx((seen[0].wall_s, seen[2].wall_s))
    assert not Evidence(seen).has_same_work(make_cell())
    assert Evidence(seen).limits_s(make_cell(data=replace(make_cell().data, name="cifar10")))[1] == math.inf


@pytest.mark.parametrize("status", [Status.skipped, Status.failed, Status.timeout, Status.killed, Status.oom])
def test_a_cell_that_measured_nothing_shows_nothing(status):
    found = Evidence()
    found.add(finished(STEPS, 0.1, status=status, measurement=None, reason="a reason", wall_s=0.1))
    assert found.limits_s(STEPS)[1] == math.inf
    found.add(finished(STEPS, 0.1))
    assert found.limits_s(STEPS)[1] < math.inf


def test_the_records_of_a_project_are_read_but_not_those_of_another_machine(tmp_path):
    elsewhere = finished(replace(STEPS, batch_size=1), environment={"machine": {"cpu_name": "another"}})
    seen = [finished(STEPS, 0.1), elsewhere]
    for number, each in enumerate(seen):
        records.write(each, tmp_path / ("runs", "results")[number] / "a")
    for number, text in enumerate(["{", "[]", "{}", '{"cell_id": 3, "wall_s": 1}']):
        (tmp_path / "runs" / "a" / f"{number:012}-00000000.json").write_text(text)
    found = read_evidence(tmp_path, MACHINE, {STEPS.id})
    assert found.limits_s(STEPS) == pytest.approx((seen[0].wall_s,) * 2)
    assert read_evidence(tmp_path, {"cpu_name": "another"}).has_same_work(STEPS)
    assert not read_evidence(tmp_path, {"cpu_name": "a third"}).has_same_work(STEPS)


def test_of_many_records_the_cells_own_and_the_newest_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(estimate, "MAX_READ", 1)
    for age, name in enumerate(("newest", "older", "asked for")):
        path = records.write(finished(of_model(name)), tmp_path / "runs")
        os.utime(path, (1e9 - age, 1e9 - age))
    found = read_evidence(tmp_path, MACHINE, {of_model("asked for").id})
    known = [name for name in ("newest", "older", "asked for") if found.has_same_work(of_model(name))]
    assert known == ["newest", "asked for"]


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
        (Length(40.0, math.inf, 12, 5, 3), "at least 40 s (5 cells of unknown length)"),
        (Length(0.0, math.inf, 12, 1, 1), "unknown time (1 cell of unknown length)"),
        (
            Length(900.0, math.inf, 432, 432, 432),
            "at least 15 min (nothing like them was measured here yet)",
        ),
        (Length(0.0, math.inf, 1, 1, 1), "unknown time (nothing like it was measured here yet)"),
        (Length(10.0, 50.0, 2, 2, 0), "at least 10 s (2 cells of unknown length)"),
    ],
)
def test_the_text_says_what_is_known(length, text):
    assert length.text == text
    assert text.startswith(str(length))


def test_a_total_adds_the_limits():
    evidence = Evidence([finished(STEPS, 0.1)])
    known, unknown = total([STEPS], evidence, [STEPS]), total([of_model("cnn", STEPS)], evidence, [STEPS])
    assert known.num_unknown == known.num_new == 0
    assert (unknown.num_unknown, unknown.num_new) == (1, 1)
    both = total([STEPS, of_model("cnn", STEPS)], evidence, [STEPS])
    assert both == known + unknown
    assert both.shortest_s == known.estimate_s
    assert both.estimate_s is None


def test_a_long_known_part_makes_a_total_known():
    evidence = Evidence(
        [finished(replace(STEPS, batch_size=16), 0.1), finished(replace(STEPS, steps=1, batch_size=16), 0.1)]
    )
    wide = replace(STEPS, steps=1, batch_size=128)
    assert total([wide], evidence, [STEPS]).num_unknown == 1
    assert total([wide, *[replace(STEPS, batch_size=16, seed=seed) for seed in range(5)]], evidence, [STEPS]).estimate_s


def test_the_first_cell_of_a_host_waits_for_its_start():
    evidence = Evidence([finished(STEPS, 0.1, at_s=0.0, waited_s=8.0), finished(STEPS, 0.1, at_s=30.0)])
    first, second = lengths([STEPS, replace(STEPS, seed=1)], evidence)
    assert first.estimate_s == pytest.approx(second.estimate_s + 8.0)
    (started,) = lengths([STEPS], evidence, started=[replace(STEPS, batch_size=8)])
    assert started == second


def test_the_first_of_the_cells_that_load_an_exported_network_waits_for_its_export():
    cell = replace(STEPS, engine=Engine.openvino)
    seen = [finished(cell, 0.1, at_s=at_s, waited_s=waited_s) for at_s, waited_s in ((0.0, 12.0), (30.0, 0.0))]
    seen.append(finished(replace(cell, batch_size=8), 0.1, at_s=60.0, waited_s=4.0))
    evidence = Evidence(seen)
    for other, waits_s in ((cell, 12.0), (replace(cell, batch_size=8), 4.0), (replace(cell, batch_size=4), 8.0)):
        first, second = lengths([other, replace(other, repeat=1)], evidence)
        assert first.longest_s - second.longest_s == pytest.approx(waits_s)
    started = [replace(cell, precision=Precision.bf16), replace(cell, batch_size=8)]  # formats share the file
    assert lengths([cell], evidence, started) == lengths([cell, cell], evidence)[1:]


def test_where_no_start_was_seen_short_cells_are_of_unknown_length():
    short = make_cell(window=Window(measure_s=0.1))
    evidence = Evidence([finished(short)])
    (first,) = lengths([short], evidence)
    assert first.longest_s - first.shortest_s == pytest.approx(START_S[1] - START_S[0])
    assert first.num_unknown == 1
    assert first.num_new == 0
