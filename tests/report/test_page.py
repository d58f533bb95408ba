import dataclasses
from pathlib import Path

import pytest

from accelbench.presentation import UNKNOWN
from accelbench.report import page, read
from accelbench.report.page import Page
from accelbench.report.tables import dashes
from accelbench.schema.vocab import Status
from report.pictures.test_studies import inferring


def compose(folder: Path) -> Page:
    return page.compose(read.read_all(folder))


def test_a_stand_in_is_announced_before_any_number(results: Path) -> None:
    (notice,) = compose(results).stand_ins.values()
    assert notice.startswith("NOT MNIST: a stand-in (scikit-learn's digits, enlarged) was measured in 33 cells.")


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


def test_a_picture_with_nothing_to_show_is_left_out_and_the_page_says_why(tmp_path: Path, maker) -> None:
    maker.suite(tmp_path, [maker.record(maker.cell(), Status.skipped, reason="no")], study=None)
    (section,) = compose(tmp_path).sections
    assert section.pictures == []
    pictures = "training and testing time; throughput against batch size; latency against batch size"
    assert section.left_out == [f"No picture of {pictures}: no ok cell has any."]


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


@pytest.mark.parametrize("name", ["000", "002", "003", "004", None])
def test_every_studys_page_composes(tmp_path, maker, name):
    records = [inferring(maker, "resnet18", batch_size=batch) for batch in (16, 32)]
    found = read.read(maker.suite(tmp_path, records, study=name))
    section = page.compose([found]).sections[0]
    assert section.caveats or name is None
    drawn = {picture.path.split("/")[1].rpartition("_nets")[0] for picture in section.pictures}
    assert drawn == {
        "000": {"families"},
        "003": {"dashboard_0", "summary"},
        None: {"throughput", "latency"},
    }.get(name, set())


def test_every_dash_of_every_table_has_its_reason_in_the_page(results: Path) -> None:
    composed = compose(results)
    tables = [*composed.first, *composed.details, composed.cells.table]
    tables += [table for section in composed.sections for table in section.tables]
    dashed = {
        table.headings[i]
        for table in tables
        for i in range(len(table.headings))
        if any(row[i].text == UNKNOWN for row in table.rows)
    }
    assert len(dashed) > 15
    assert [heading for heading in dashed if dashes.reason(heading) is None] == []
    assert all("ours: speed-up (x)" in table.why_dashes for table in tables if table.title == "Training time")


def test_the_longest_beginning_of_a_heading_decides_and_a_reason_is_given_once() -> None:
    assert dashes.reason("ours: one evaluation (s)") == dashes.reason("training loss")
    assert dashes.note(["training loss", "test loss"]).startswith("training loss, test loss: ")
    assert dashes.note(["cell"]) == ""


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
