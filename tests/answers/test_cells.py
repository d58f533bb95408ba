from dataclasses import replace

import pytest

from accelbench.answers.cells import NOT_RUN, WHY_OLDER, Process, cells_of, process_rows
from accelbench.judging.costs import Cost
from accelbench.schema.cell import Device, Status

TWO = {"fp32": 1000, "bf16": 2000}


@pytest.mark.parametrize(
    ("rates", "speed"), [([300], 300), ([300, 100], 200), ([300, 100, 120], 120), ([1, 9, 2, 3], 2.5)]
)
def test_the_speed_of_a_cell_is_the_median_of_its_processes_and_others_follow(maker, rates, speed) -> None:
    costs = {Device.cpu: Cost(price_per_hour=3.6, power_w=10.0)}
    records = [maker.ok(maker.cell(repeat=i, seed=i % 2), rate) for i, rate in enumerate(rates)]
    (cell,) = cells_of(Process.of(each, costs=costs) for each in records)
    assert cell.speed == cell.number("samples_per_s") == pytest.approx(speed)
    assert cell.num_processes == cell.row["num_processes"] == len(rates)
    assert cell.low < cell.speed < cell.high
    found = [cell.number(name) for name in ("cost_per_million_samples", "energy_j_per_sample", "time_s")]
    assert found == pytest.approx([1000 / speed, 10 / speed, 5 * 60_000 / speed])


def test_confirming_processes_alone_count_where_there_are_enough(maker) -> None:
    single = [maker.ok(maker.cell(precision=word), rate) for word, rate in (("fp32", 500), ("bf16", 9000))]
    planned = [Process.of(maker.at(each, 50)) for each in single]
    made = map(Process.of, maker.interleaved(TWO, growth=0.01))
    confirming = [replace(each, is_confirming=True, folder="confirmed") for each in made]
    first, second = cells_of([*planned, *confirming])
    assert (first.num_processes, second.num_processes) == (5, 5)
    assert first.speed == pytest.approx(1020, rel=0.001)
    assert first.label == planned[0].label
    assert first.row["repeat"] == planned[0].cell.repeat != first.own_row["repeat"]
    few, _ = cells_of([*planned, *confirming[:4]])
    assert few.num_processes == 3
    assert cells_of(confirming) == []


def test_processes_of_other_machines_or_packages_are_other_cells(cells, maker) -> None:
    record = maker.ok(maker.cell(), 100)
    changes = [{"machine": {"cpu_name": "another"}}, {"versions": {"torch": "3"}}]
    changes += [{"variables": {"A": "1"}}, {"git": {"revision": "1234567"}}]
    *others, git = (replace(record, environment={**record.environment, **change}) for change in changes)
    found = cells([record, maker.at(git, 9), *others])
    assert [cell.num_processes for cell in found] == [2, 1, 1, 1]
    assert len({cell.measured_key for cell in found}) == 4


@pytest.mark.parametrize(
    "change", [{"files": {"model.target": "2"}}, {"files": {"model.weights": "2"}}, {"code": "9"}, {"data": "e"}]
)
def test_processes_of_other_code_weights_or_data_are_an_older_cell_that_counts_nowhere(cells, maker, change) -> None:
    before = maker.ok(maker.cell(repeat=0), 70_000)
    data = maker.stand_in if "data" in change else before.data
    after = maker.ok(maker.cell(repeat=1), 400, data=data)
    after = maker.at(replace(after, environment={**before.environment, **change}), 9)
    for records in ([before, after], [after, before]):
        new, old = sorted(cells(records), key=lambda cell: cell.is_older)
        assert (new.outcome, new.speed, new.num_processes) == ("ok", pytest.approx(400), 1)
        assert (old.outcome, old.speed, old.num_processes, old.is_ok) == ("older", None, 0, False)
        assert (old.row["status"], old.row["samples_per_s"], old.row["reason"]) == ("ok", None, WHY_OLDER)
        rows = sorted(process_rows([new, old]), key=lambda row: row["repeat"])
        assert [row["counts"] for row in rows] == [False, True]
        assert (rows[0]["cell"], rows[0]["reason"]) == (old.row["cell"], WHY_OLDER)
        assert rows[0]["samples_per_s"] == pytest.approx(70_000)
    new, _ = cells_of([Process.of(after), Process.of(before), waiting(maker)])
    assert NOT_RUN in [process.outcome for process in new.processes]


def waiting(maker):
    return Process(cell=maker.cell(repeat=2), name="0" * 12 + "-" + "0" * 8, label="w", record=None)


def test_what_did_not_run_or_failed_belongs_to_the_cell_of_its_settings(maker) -> None:
    ran = Process.of(maker.ok(maker.cell(repeat=0), 100))
    failed = Process.of(maker.record(maker.cell(repeat=1), Status.failed, reason="no"))
    (cell,) = cells_of([waiting(maker), failed, ran])
    assert (cell.outcome, cell.num_processes, len(cell.processes)) == ("ok", 1, 3)
    (alone,) = cells_of([waiting(maker), failed])
    assert (alone.outcome, alone.reason, alone.speed, alone.row["samples_per_s"]) == ("failed", "no", None, None)
    (nothing,) = cells_of([waiting(maker)])
    assert nothing.outcome == NOT_RUN


def test_a_cell_of_several_sweeps_has_one_speed_and_a_sweep_where_it_failed_says_so(maker) -> None:
    made = {rate: maker.at(maker.ok(maker.cell(), rate), rate % 7) for rate in (100, 300)}
    here, there = (Process.of(record, folder=str(rate)) for rate, record in made.items())
    first, second = cells_of([here, there])
    assert (first.folder, second.folder) == ("100", "300")
    assert first.speed == second.speed == pytest.approx(200)
    failed = Process.of(maker.record(maker.cell(), Status.failed, reason="no"), folder="failed")
    assert [cell.outcome for cell in cells_of([here, there, failed])] == ["ok", "ok", "failed"]
