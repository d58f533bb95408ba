import dataclasses

import pytest

from accelbench.report import build, read
from accelbench.report.tables import best
from accelbench.schema.vocab import Mode, Pipeline, Status
from accelbench.schema.workload import DataSpec


def row(**changes):
    values = {"model": "cnn", "mode": "infer", "data": "mnist", "samples_per_s": 100.0, "latency_p50_ms": 10.0}
    return {**values, "energy_j_per_sample": None, "cost_per_million_samples": None, **changes}


FAST = row(samples_per_s=1000.0, latency_p50_ms=50.0)
QUICK = row(samples_per_s=200.0, latency_p50_ms=2.0)
MIDDLE = row(samples_per_s=500.0, latency_p50_ms=10.0)
BEATEN = row(samples_per_s=400.0, latency_p50_ms=20.0)
ROWS = [BEATEN, MIDDLE, QUICK, FAST]


def test_the_best_is_by_what_is_wanted():
    assert best.best_by(ROWS, "throughput") is FAST
    assert best.best_by(ROWS, "latency") is QUICK
    assert best.best_by(ROWS, "energy") is None


def test_the_front_holds_what_no_other_beats():
    assert best.unbeaten(ROWS) == [FAST, MIDDLE, QUICK]
    assert best.unbeaten([MIDDLE, dict(MIDDLE)]) == [MIDDLE]
    assert best.unbeaten([]) == []


def test_what_is_not_known_of_all_decides_nothing():
    frugal = row(samples_per_s=1.0, latency_p50_ms=99.0, energy_j_per_sample=0.1)
    assert best.unbeaten([*ROWS, frugal]) == [FAST, MIDDLE, QUICK]
    assert best.best_by([*ROWS, frugal], "energy") is frugal


def test_a_limit_of_latency_leaves_out_what_is_slower_or_unknown():
    assert [best.is_within(each, 10) for each in (MIDDLE, BEATEN, row(latency_p50_ms=None))] == [True, False, False]
    assert best.is_within(row(latency_p50_ms=None), None)


def test_each_wanted_thing_is_told_once_and_the_rest_of_the_front_after_it():
    assert best.choices(ROWS) == [("throughput", FAST), ("latency", QUICK), ("unbeaten", MIDDLE)]


def test_cells_that_did_different_things_are_not_chosen_between(tmp_path, maker):
    def random(side, pipeline, batch_size, rate):
        data = DataSpec(name="random", pipeline=pipeline)
        cell = maker.cell("resnet18", mode=Mode.infer, data=data, batch_size=batch_size)
        model = dataclasses.replace(cell.model, input_shape=(3, side, side))
        return maker.ok(dataclasses.replace(cell, model=model), rate)

    made = [
        random(224, Pipeline.host, 8, 50.0),
        random(224, Pipeline.host, 16, 60.0),
        random(224, Pipeline.device, 16, 70.0),
        random(32, Pipeline.host, 16, 900.0),
    ]
    shown = best.table([read.read(maker.suite(tmp_path, made))])
    found = {
        (row[0].text, row[shown.headings.index("samples/s")].text) for row in shown.rows if "throughput" in row[1].text
    }
    assert found == {
        ("resnet18 infer, random 3x224x224 host", "60.0"),
        ("resnet18 infer, random 3x224x224 device", "70.0"),
        ("resnet18 infer, random 3x32x32 host", "900"),
    }


def test_of_several_processes_of_one_cell_the_middle_one_is_shown(tmp_path, maker):
    rates = {(64, 0): 300.0, (64, 1): 900.0, (64, 2): 310.0, (64, 3): 320.0, (32, 0): 400.0}
    made = [maker.ok(maker.cell(batch_size=size, repeat=repeat), rate) for (size, repeat), rate in rates.items()]
    made.append(maker.ok(maker.cell(batch_size=32, seed=1), 500.0))
    found = [read.read(maker.suite(tmp_path, made))]
    (cells,) = best.workloads(found)
    assert [reported.number("samples_per_s") for reported in best.typical(cells)] == [310.0, 400.0]
    shown = best.table(found)
    assert shown.rows[0][shown.headings.index("samples/s")].text == "400"
    assert build.headline(found, [])["best_train_samples_per_s"] == pytest.approx(400.0)


def test_processes_on_different_machines_do_not_stand_for_each_other(tmp_path, maker):
    one, other = (maker.ok(maker.cell(repeat=repeat), 100.0 + repeat) for repeat in range(2))
    other = dataclasses.replace(other, environment={**other.environment, "machine": {"cpu": "another"}})
    (cells,) = best.workloads([read.read(maker.suite(tmp_path, [one, other]))])
    assert len(best.typical(cells)) == 2


def test_where_no_cell_is_ok_there_is_no_table(tmp_path, maker):
    skipped = maker.record(maker.cell(), Status.skipped, reason="no")
    assert best.table([read.read(maker.suite(tmp_path, [skipped]))]) is None


@pytest.mark.parametrize("wanted", best.CRITERIA)
def test_every_criterion_has_its_column_in_the_published_row(wanted):
    from accelbench.judging.row import MEASURED

    assert best.CRITERIA[wanted][0] in MEASURED
