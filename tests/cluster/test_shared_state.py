import dataclasses
import shutil

import pytest

from accelbench.cluster.shared_state import SharedState
from accelbench.project import workplace
from fakes import make_project

RECORD = "0123456789ab-01234567.json"


@pytest.fixture
def place(tmp_path, monkeypatch):
    make_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    return workplace()


def state_of(place, name):
    state = SharedState(place, place.root / "runs" / name)
    state.folder.mkdir(parents=True)
    return state


def leave(spread, job, text="{}"):
    path = spread.finished(job) / RECORD
    path.parent.mkdir(parents=True)
    path.write_text(text)
    path.with_suffix(".safetensors").write_text(f"weights of {text}")
    return path


@pytest.mark.parametrize("name", ["h[100]", "work", "mine*"])
def test_records_are_found_whatever_the_sweeps_folder_is_called(place, name):
    spread = state_of(place, name).new_round()
    (spread.folder / "work/1").mkdir(parents=True)
    (spread.folder / "work/1" / RECORD).write_text("cut off")
    assert spread.sources() == []
    path = leave(spread, "2")
    assert spread.sources() == [path.parent]
    folder = place.root / "runs" / name
    folder.mkdir(parents=True)
    assert not spread.is_in(folder)
    shutil.copy(path, folder)
    assert spread.is_in(folder)


def test_runs_may_be_a_link_to_another_disk(place, tmp_path_factory):
    disk = tmp_path_factory.mktemp("disk")
    (place.root / "runs").symlink_to(disk)
    for folder in (disk / "mine/all", place.root / "runs/mine/all"):
        assert SharedState(place, folder).folder == place.root / ".accelbench/runs/mine/all"
    linked = dataclasses.replace(place, root=tmp_path_factory.mktemp("links") / "project")
    linked.root.symlink_to(place.root)
    assert SharedState(linked, disk / "mine").folder == linked.root / ".accelbench/runs/mine"


def test_no_two_rounds_have_jobs_of_one_name(place):
    state = state_of(place, "mine")
    first = state.new_round()
    shutil.rmtree(first.folder)
    again, third = state.new_round(), state.new_round()
    assert len({first.job_name, again.job_name, third.job_name}) == 3
    assert [each.folder for each in state.rounds()] == [again.folder, third.folder]


def test_every_replaced_record_is_kept_with_its_weights_and_no_round_brings_it_back(place):
    state = state_of(place, "mine")
    spread = state.new_round()
    copy = leave(spread, "1", "one")
    record = place.root / "runs/mine" / RECORD
    record.parent.mkdir(parents=True)
    for text in ("one", "two"):
        record.write_text(text)
        record.with_suffix(".safetensors").write_text(f"weights of {text}")
        state.set_aside(record)
    kept = {path.name: path.read_text() for path in (state.folder / "replaced").iterdir()}
    assert sorted(kept) == sorted(
        f"{RECORD[:-5]}{number}{ending}" for number in ("", "-2", "-3") for ending in (".json", ".safetensors")
    )
    assert set(kept.values()) == {"one", "two", "weights of one", "weights of two"}
    assert not copy.exists()
    assert list(record.parent.iterdir()) == []
