import math
import os
from dataclasses import replace

import pytest

from accelbench.grid import estimate as evidence_module
from accelbench.grid.estimate import START_S, Evidence, expected_s, read_evidence
from accelbench.schema import record as records
from accelbench.schema.cell import Window
from accelbench.schema.vocab import Engine, Precision, Protocol, Status
from fakes import SHORT, make_cell
from grid.finished import MACHINE, NUM_SAMPLES, OVERHEAD_S, finished, of_model

STEPS = make_cell(protocol=Protocol.steps, steps=100)


def middle(limits):
    return math.sqrt(math.prod(limits))


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


def test_where_windows_decide_the_batch_does_not_matter():
    seen = finished(make_cell(batch_size=8, window=Window()), 0.0005)
    low, high = Evidence([seen]).limits_s(make_cell(batch_size=64, window=Window()))
    assert high / low < 1.2


@pytest.mark.parametrize("step_s", [0.001, 0.3, 4.0])
@pytest.mark.parametrize("cell", [make_cell(window=Window()), STEPS, make_cell(protocol=Protocol.fit, epochs=3)])
def test_a_step_is_as_long_under_each_protocol(step_s, cell):
    seen = finished(make_cell(window=Window(measure_s=0.3)), step_s)
    expected = expected_s(cell, step_s, NUM_SAMPLES) + OVERHEAD_S
    assert Evidence([seen]).limits_s(cell) == pytest.approx((expected, expected), rel=0.01)


def test_cells_that_differ_widen_the_limits_and_old_ones_no_longer_count():
    walls = [finished(at_s=60.0 * number, slower=slower) for number, slower in enumerate((9.0, 1.0, 2.0, 3.0))]
    low, high = Evidence(walls).limits_s(make_cell())
    assert (low, high) == pytest.approx((walls[1].wall_s, walls[3].wall_s))


def test_what_other_processes_used_widens_the_limits():
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


def test_a_finished_cell_adds_to_the_evidence():
    found = Evidence()
    found.add(finished(STEPS, 0.1))
    assert found.limits_s(STEPS)[1] < math.inf


@pytest.mark.parametrize("status", [Status.skipped, Status.failed, Status.timeout, Status.killed, Status.oom])
def test_a_cell_that_measured_nothing_shows_nothing(status):
    seen = finished(status=status, measurement=None, reason="a reason", wall_s=0.1)
    assert Evidence([seen]).limits_s(make_cell())[1] == math.inf


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
    monkeypatch.setattr(evidence_module, "MAX_READ", 1)
    for age, name in enumerate(("newest", "older", "asked for")):
        path = records.write(finished(of_model(name)), tmp_path / "runs")
        os.utime(path, (1e9 - age, 1e9 - age))
    found = read_evidence(tmp_path, MACHINE, {of_model("asked for").id})
    known = [name for name in ("newest", "older", "asked for") if found.has_same_work(of_model(name))]
    assert known == ["newest", "asked for"]
