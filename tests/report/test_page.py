import dataclasses
from pathlib import Path

from accelbench.report import page, read
from accelbench.report.page import Page
from accelbench.schema.vocab import Status


def compose(folder: Path) -> Page:
    return page.compose(read.read_all(folder))


def test_a_stand_in_is_announced_before_any_number(results: Path) -> None:
    (notice,) = compose(results).stand_ins.values()
    assert notice.startswith("NOT MNIST: a stand-in (a drawn digit for each class) was measured in 33 cells.")


def test_only_what_was_measured_counts_as_measured(tmp_path: Path, maker) -> None:
    skipped = [maker.record(maker.cell(device="gpu"), Status.skipped, reason="no GPU", data=maker.stand_in)]
    skipped[0] = dataclasses.replace(skipped[0], started_at="2026-11-19T18:00:00+00:00")
    maker.suite(tmp_path, [maker.ok(maker.cell(), 1, data=maker.stand_in), *skipped])
    composed = compose(tmp_path)
    assert "was measured in 1 cell." in composed.stand_ins["mnist"]
    assert composed.when == ("2026-11-20 18:00", "2026-11-20 18:00")
    maker.suite(tmp_path, skipped)
    assert (compose(tmp_path).stand_ins, compose(tmp_path).when) == ({}, None)


def test_real_data_needs_no_notice(tmp_path: Path, maker) -> None:
    maker.suite(tmp_path, [maker.ok(maker.cell(), 1)])
    assert compose(tmp_path).stand_ins == {}


def test_counts_by_outcome_in_the_vocabulary_s_order(results: Path) -> None:
    assert list(compose(results).counts.items()) == [
        *(("ok", 33), ("skipped", 4), ("failed", 1), ("oom", 1), ("timeout", 1), ("killed", 1), ("invalid", 1)),
        ("not run yet", 2),
    ]


def test_each_machine_is_named_with_its_cells(tmp_path: Path, maker) -> None:
    records = [maker.ok(maker.cell(batch_size=size), 1) for size in (1, 2, 4)]
    other = {"machine": {"cpu_name": "Other", "gpus": ["Example GPU"]}, "code": "abc123"}
    records[0] = maker.record(records[0].cell, Status.skipped, reason="no", environment=other)
    maker.suite(tmp_path, records)
    places = compose(tmp_path).environments
    assert places[0] == ("machine (1 cells)", "cpu name Other, gpus Example GPU")
    assert places[1][0] == "machine (2 cells)"
    assert "num cores 2" in places[1][1]
    assert ("code of lightning", "abc123") in places


def test_when_nothing_has_run_the_page_says_no_time(tmp_path: Path, maker) -> None:
    maker.suite(tmp_path, [], [maker.cell()])
    composed = compose(tmp_path)
    assert composed.when is None
    assert composed.counts == {"not run yet": 1}


def test_the_machines_are_counted(tmp_path, maker):
    cells = [maker.cell(batch_size=size) for size in (8, 16)]
    records = [maker.ok(cell, 10.0) for cell in cells]
    maker.suite(tmp_path / "one", records)
    assert compose(tmp_path / "one").num_machines == 1
    other = dataclasses.replace(records[1], environment=records[1].environment | {"machine": {"cpu_name": "another"}})
    maker.suite(tmp_path / "two", [records[0], other])
    assert compose(tmp_path / "two").num_machines == 2


def test_another_release_of_python_is_no_other_machine(tmp_path, maker):
    records = [maker.ok(maker.cell(batch_size=size), 10.0) for size in (8, 16)]
    machine = records[1].environment["machine"] | {"platform": "Linux-9.9"}
    newer = dataclasses.replace(records[1], environment=records[1].environment | {"machine": machine})
    maker.suite(tmp_path, [records[0], newer])
    assert compose(tmp_path).num_machines == 1
