import json
from pathlib import Path

import pytest

from accelbench.compare import record_sets
from accelbench.compare.record_sets import Selection, find
from accelbench.errors import UserError
from accelbench.schema import record
from accelbench.schema.measurement import Block
from accelbench.schema.plan_file import PlanFile, WantedCell, write_plan
from accelbench.schema.record import Record
from accelbench.schema.vocab import Status
from fakes import make_cell, make_measurement, refuse_listing

OLD = {"machine": {"cpu_name": "AMD EPYC", "gpus": ["NVIDIA H100"]}, "git": {"revision": "abc1" * 10, "branch": "main"}}
NEW = {"machine": {"cpu_name": "AMD EPYC", "gpus": []}, "git": {"revision": "def2" * 10, "branch": "faster"}}


def put(folder, environment=OLD, identity="0" * 64, status=Status.ok, measurement=None, **changes):
    """A record in `folder`, as a sweep leaves it."""
    made = Record(
        cell=make_cell(**changes),
        identity=identity,
        status=status,
        started_at="2026-11-20T09:00:00.000+00:00",
        wall_s=1.0,
        environment=environment,
        measurement=measurement or (make_measurement() if status == Status.ok else None),
    )
    record.write(made, folder)
    return made


def plan(folder, *records):
    cells = [WantedCell(each.cell, each.name) for each in records]
    write_plan(PlanFile(suite="s", title="S", study=None, profile=None, cells=cells), folder)


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def put_unreadable(folder):
    """A record of a schema before the first that is read, and a file that is no record."""
    values = put(folder, repeat=8).to_json()
    (path,) = folder.glob(f"{values['cell_id']}-*.json")
    path.write_text(json.dumps({**values, "schema_version": 2}))
    (folder / f"{'f' * 12}-{'0' * 8}.json").write_text("{")


def repeats(records):
    return sorted(process.cell.repeat for process in records.processes)


def test_a_folder_is_what_its_plan_wants(root):
    put(root / "runs/x", repeat=0)
    plan(root / "runs/x", put(root / "runs/x", repeat=1), put(root / "runs/x", repeat=2))
    assert repeats(find("runs/x", root)) == [1, 2]


def test_a_folder_without_a_plan_is_all_that_it_holds(root):
    for repeat in range(3):
        put(root / "elsewhere", repeat=repeat)
    assert repeats(find("elsewhere", root)) == [0, 1, 2]


def test_a_folder_of_suites_is_all_of_them_and_a_suite_goes_by_its_name(root):
    plan(root / "results/nets", put(root / "results/nets", repeat=1))
    plan(root / "results/more", put(root / "results/more", repeat=2))
    assert repeats(find("results", root)) == [1, 2]
    assert repeats(find("nets", root)) == [1]


def test_a_record_goes_by_its_file(root):
    made = put(root / "runs/x")
    assert repeats(find(f"runs/x/{made.name}.json", root)) == [0]


@pytest.mark.parametrize(
    ("word", "found", "selection"),
    [
        ("abc1abc1", [0], Selection.revision),
        ("def2", [1], Selection.revision),
        ("faster", [1], Selection.revision),
        ("h100", [0], Selection.machine),
        ("EPYC", [0, 1], Selection.machine),
    ],
)
def test_a_word_selects_a_revision_or_a_machine_of_all_that_was_ever_measured(root, word, found, selection):
    put(root / "results/nets", OLD, repeat=0)
    plan(root / "results/nets", put(root / "results/nets", NEW, repeat=1))
    for name in (f"nets@{word}", f"@{word}", f"results/nets@{word}"):
        records = find(name, root)
        assert (repeats(records), records.selection, records.left_out) == (found, selection, "")


def test_records_that_are_not_readable_are_counted(root):
    put(root / "results/nets", repeat=0)
    put_unreadable(root / "results/nets")
    assert find("nets@abc1", root).left_out == "1 of schema 2, 1 without a readable record"
    (line,) = find("nets@abc1", root).problems
    assert line.startswith(f"results/nets/{'f' * 12}-{'0' * 8}.json: not a readable record (")
    with pytest.raises(
        UserError, match="machines: AMD EPYC, NVIDIA H100. Not read: 1 of schema 2, 1 without a readable record.$"
    ):
        find("nets@9999", root)
    put_unreadable(root / "old")
    with pytest.raises(
        UserError, match="holds no readable records. Not read: 1 of schema 2, 1 without a readable record.$"
    ):
        find("old@abc1", root)


def test_records_of_a_plan_that_are_not_readable_are_left_out_and_named(root):
    made = [put(root / "runs/x", repeat=repeat) for repeat in range(3)]
    plan(root / "runs/x", *made)
    (root / f"runs/x/{made[1].name}.json").write_text("{")
    found = find("runs/x", root)
    assert (repeats(found), found.left_out) == ([0, 2], "1 without a readable record")
    (line,) = found.problems
    assert line.startswith(f"runs/x/{made[1].name}.json: not a readable record (")
    assert line.endswith("); delete it and run the sweep again")
    for one in (made[0], made[2]):
        (root / f"runs/x/{one.name}.json").write_text("{")
    with pytest.raises(UserError, match="runs/x: holds no readable records\n  runs/x/.*not a readable record"):
        find("runs/x", root)


def test_a_plan_that_is_not_readable_is_named_and_all_records_beside_it_are_compared(root):
    for repeat in (1, 2):
        put(root / "results/bad", repeat=repeat)
    (root / "results/bad/plan.json").write_text("{")
    plan(root / "results/good", put(root / "results/good", repeat=3))
    put(root / "results/good", repeat=4)
    found = find("results", root)
    assert repeats(found) == [1, 2, 3]
    (note,) = found.notes
    assert note.startswith("results/bad/plan.json: not a readable plan (")
    assert note.endswith("; all records beside it are compared")
    (root / "runs/bad").mkdir(parents=True)
    (root / "runs/bad/plan.json").write_text("{")
    with pytest.raises(UserError, match="runs: holds no readable records\n  runs/bad/plan.json: not a readable plan"):
        find("runs", root)


@pytest.mark.parametrize("name", ["runs", "runs@abc1"])
def test_a_folder_that_can_not_be_listed_is_named(root, monkeypatch, name):
    put(root / "runs/open", repeat=1)
    put(root / "runs/locked", repeat=2)
    refuse_listing(monkeypatch, Path("runs/locked"))
    found = find(name, root)
    assert (repeats(found), found.notes) == ([1], ["runs/locked: Permission denied"])
    refuse_listing(monkeypatch, Path("runs/open"))
    with pytest.raises(UserError, match="no readable records.*\n  runs/locked: Permission denied"):
        find(name, root)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("runs/y", "runs/y: no folder of records, suite or record. There are: results/nets, runs/x."),
        ("nets@9999", "Revisions: abc1abc1; machines: AMD EPYC, NVIDIA H100."),
        ("", "no folder of records"),
        ("empty", "empty: holds no records"),
        ("empty@abc1", "empty@abc1: that folder holds no records"),
        ("runs/x/plan.json", "not a readable record"),
    ],
)
def test_what_is_not_found_is_told_with_what_there_is(root, name, told):
    plan(root / "results/nets", put(root / "results/nets"))
    plan(root / "runs/x", put(root / "runs/x"))
    (root / "empty").mkdir()
    with pytest.raises(UserError) as raised:
        find(name, root)
    assert told in str(raised.value)


def test_where_nothing_was_measured_yet_it_says_so(root):
    with pytest.raises(UserError, match="There are none yet: measure something first"):
        find("runs/x", root)


def test_a_process_that_did_not_end_well_has_no_rates(root):
    blocks = [Block(num_steps=1, num_samples=30, seconds=0.1)] * 3
    ok = put(root / "x", measurement=make_measurement(blocks=blocks))
    invalid = put(root / "x", status=Status.invalid, measurement=make_measurement(), repeat=1)
    assert record_sets.Process.of(ok).rates == pytest.approx([300.0] * 3)
    assert record_sets.Process.of(invalid).rates == []
