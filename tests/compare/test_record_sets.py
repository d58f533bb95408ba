import json

import pytest

from accelbench.compare import record_sets
from accelbench.compare.record_sets import find
from accelbench.errors import UserError
from accelbench.schema import record
from accelbench.schema.measurement import Block
from accelbench.schema.vocab import Status
from fakes import make_cell, make_measurement, make_record, write_plan_of

OLD = {"machine": {"cpu_name": "AMD EPYC", "gpus": ["NVIDIA H100"]}, "git": {"revision": "abc1" * 10, "branch": "main"}}
NEW = {"machine": {"cpu_name": "AMD EPYC", "gpus": []}, "git": {"revision": "def2" * 10, "branch": "faster"}}


def put(folder, repeat=0, environment=OLD, **changes):
    """A record in `folder`, as a sweep leaves it."""
    made = make_record(make_cell(repeat=repeat), environment=environment, **changes)
    record.write(made, folder)
    return made


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A project."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "params.yaml").write_text("suites: {}\n")
    return tmp_path


def put_unreadable(folder):
    """A record of a schema before the first that is read, and a file that is no record."""
    values = put(folder, repeat=8).to_json()
    (path,) = folder.glob(f"{values['cell_id']}-*.json")
    path.write_text(json.dumps({**values, "schema_version": 2}))
    (folder / f"{'f' * 12}-{'0' * 8}.json").write_text("{")


def repeats(records):
    return sorted(process.cell.repeat for process in records.processes)


def test_a_name_is_a_folder_of_records_a_suite_or_a_records_file(root):
    put(root / "results/nets", repeat=0)
    made = put(root / "results/nets", repeat=1)
    write_plan_of(root / "results/nets", [made])
    for repeat in (2, 3):
        put(root / "results/more", repeat=repeat)
    assert repeats(find("nets")) == repeats(find("results/nets")) == [1]  # what its plan wants
    assert repeats(find("more")) == [2, 3]  # without a plan, all
    assert repeats(find("results")) == [1, 2, 3]
    assert repeats(find(f"results/nets/{made.name}.json")) == [1]


def test_a_word_selects_a_revision_of_all_that_was_ever_measured(root):
    put(root / "results/nets", 0, OLD)
    write_plan_of(root / "results/nets", [put(root / "results/nets", 1, NEW)])
    for word, numbers in {"abc1abc1": [0], "def2": [1], "faster": [1]}.items():
        for name in (f"nets@{word}", f"@{word}", f"results/nets@{word}"):
            records = find(name)
            assert (repeats(records), records.notes) == (numbers, [])


def test_of_several_versions_of_the_code_those_of_the_last_one_count(root):
    for repeat, word in enumerate("aabb"):
        environment = {**OLD, "files": {"model.target": word}}
        put(root / "results/nets", repeat, environment, started_at=f"2026-11-20T09:0{repeat}:00+00:00")
    for name in ("nets", "nets@main"):
        records = find(name)
        assert repeats(records) == [2, 3]
        assert records.notes == ["2 processes left out because of older code, weights, data or packages"]


def test_records_that_are_not_readable_are_named(root):
    put(root / "results/nets", repeat=0)
    put_unreadable(root / "results/nets")
    records = find("nets@abc1")
    assert len(records.notes) == 2
    assert f"results/nets/{'f' * 12}-{'0' * 8}.json: not a readable record (" in "\n".join(records.notes)
    named = "Revisions: abc1abc1.\n  results/nets/.*schema 2.*\n  results/nets/f+-0+.json: not a"
    with pytest.raises(UserError, match=named):
        find("nets@9999")
    put_unreadable(root / "old")
    with pytest.raises(UserError, match="old@abc1: holds no readable records\n  old/.*schema 2.*\n  old/f+-0+.json"):
        find("old@abc1")


def test_a_process_that_did_not_end_well_has_no_rates():
    measured = make_measurement(blocks=[Block(num_steps=1, num_samples=30, seconds=0.1)] * 3)
    assert record_sets.ComparedProcess.of(make_record(measurement=measured)).rates == pytest.approx([300.0] * 3)
    assert record_sets.ComparedProcess.of(make_record(status=Status.invalid, measurement=measured)).rates == []
