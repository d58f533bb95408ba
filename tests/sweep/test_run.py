"""Sweeps through real forkservers, of the engine that fails as told (`fakes`)."""

import errno
import os

import pytest

from accelbench.errors import ChangedError, UserError
from accelbench.grid import fingerprint, plan
from accelbench.isolation.hosts import Hosts
from accelbench.project import RECORDS
from accelbench.schema import plan_file, record
from accelbench.schema.cell import Device, Engine, Library, ModelSpec, Precision, Status
from accelbench.settings.config import Retry
from fakes import faulty_host, make_cell


@pytest.fixture
def folder(project):
    return project / "runs/test"


def written(folder):
    """Record file -> when it was written."""
    return {path.name: path.stat().st_mtime_ns for path in folder.glob(RECORDS)}


def measured(before, after):
    """How many records were written between the two."""
    return sum(before.get(name) != time_ns for name, time_ns in after.items())


def of_sizes(*sizes):
    return [make_cell(batch_size=size) for size in sizes]


def statuses(result):
    return [found.status for found in result.records]


def planned_sizes(folder):
    return [found.cell.batch_size for found in plan_file.read_planned(folder)]


FAULTS = {
    "none": Status.ok,
    "raise": Status.failed,
    "memory": Status.oom,
    "hang": Status.timeout,
    "signal": Status.killed,
    "other device": Status.invalid,
}


def test_whatever_happens_to_a_cell_is_a_record_and_retry_tries_again_what_may_end_otherwise(swept, folder):
    cells = [make_cell(fault, timeout_s=0.5 if fault == "hang" else 60.0) for fault in FAULTS]
    result, text = swept([*cells, make_cell(batch_size=8)])
    assert statuses(result) == [*FAULTS.values(), Status.ok]
    assert result.num_unexpected == 5
    assert list(plan_file.read_planned(folder)) == result.records
    assert "2 ok, 1 failed, 1 oom, 1 timeout, 1 killed, 1 invalid" in text
    assert text.count("failed  ValueError: a bad layer") == text.count("fp32 b32 fault=raise") == 1
    assert "Records: runs/test" in text
    before = written(folder)
    # Another suite's sweep has another id, also within the same second.
    text = swept(cells, suite="later", is_auto=True)[1]  # its progress says nothing of what is known
    assert text.startswith("device=auto: cpu (")
    assert text.count(f"{result.records[1].label}: failed: ValueError: a bad layer") == 1
    assert written(folder) == before
    result, _ = swept(cells, retry=Retry.failed)
    again = {
        found.status
        for found in result.records
        if before[f"{found.name}.json"] != written(folder)[f"{found.name}.json"]
    }
    assert again == {Status.failed, Status.timeout, Status.killed}


def test_a_record_is_there_before_the_next_cell_starts_and_holds_what_it_depended_on(swept, folder):
    seen = []

    class Watching(Hosts):
        def run(self, cell, data_folder, weights=None, requests=None):
            seen.append(len(written(folder)))
            return super().run(cell, data_folder, weights)

    found, *_ = swept(of_sizes(8, 16, 32), Watching(faulty_host))[0].records
    assert seen == [0, 1, 2]
    assert found.data.source == "random pixels"
    names = {"machine", "versions", "variables", "code", "git", "idle_w", "ceilings", "probe_code", "busy", "tracking"}
    assert names == set(found.environment)
    assert found.sweep_id.endswith("-test")
    depends_on = {k: v for k, v in found.environment.items() if k not in ("git", *record.DEVICE_MEASUREMENTS)}
    assert found.identity == fingerprint.identity(found.cell, found.data, depends_on)
    assert 0 < found.wall_s < 60


def test_a_second_sweep_into_a_folder_runs_the_new_cells_only_and_adds_them_to_its_plan(swept, folder, monkeypatch):
    swept(of_sizes(8, 16))
    before = written(folder)
    result, _ = swept(of_sizes(32, 16), title="Newest")
    assert measured(before, written(folder)) == 1
    assert [found.cell.batch_size for found in result.records] == [16, 32]  # the known ones first
    assert planned_sizes(folder) == [8, 16, 32]
    assert plan_file.read_plan(folder).title == "Newest"
    (folder / "plan.json").unlink()  # then the records there are planned
    swept(of_sizes(64))
    assert sorted(planned_sizes(folder)) == [8, 16, 32, 64]
    current, before = fingerprint.fingerprint(Engine.pytorch), written(folder)
    monkeypatch.setattr(plan, "fingerprint", lambda engine: {**current, "code": "another"})
    (found,) = swept(of_sizes(8))[0].records  # by other code, or on another machine
    assert before.items() < written(folder).items()
    assert found in plan_file.read_planned(folder)
    assert found.environment["code"] == "another"


def test_what_cannot_be_read_is_kept_and_its_cell_measured_again(swept, folder):
    cells = of_sizes(8, 16, 32)
    first, _ = swept(cells)
    before = written(folder)
    half, lost, _ = paths = [folder / f"{found.name}.json" for found in first.records]
    half.write_text(half.read_text()[:100])
    lost.unlink()
    lost.mkdir()
    spoilt = [path.stat().st_ino for path in (half, lost)]
    result, text = swept(cells)
    assert [record.read(path) for path in paths] == sorted(result.records, key=lambda each: each.cell.batch_size)
    for inode, path in zip(spoilt, (half, lost), strict=True):
        kept = path.with_name(f"{path.name}.unreadable")
        assert kept.stat().st_ino == inode
        assert f"runs/test/{path.name}: not a readable record (" in text
        assert f"); kept as {kept.name}, its cell is measured again" in text
    assert measured(before, written(folder)) == 2


def test_a_full_disk_stops_the_sweep_which_goes_on_when_there_is_room(swept, folder, monkeypatch):
    left = [None] * 2  # room for the plan and the first record

    def fsync(descriptor):
        if not left:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        left.pop()

    cells = of_sizes(8, 16, 32)
    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(UserError, match="^runs/test: disk full$"):
        swept(cells)
    before = written(folder)
    assert sorted(path.name for path in folder.iterdir()) == sorted([*before, "plan.json"])
    left += [None] * 100
    assert statuses(swept(cells)[0]) == [Status.ok] * 3
    assert measured(before, written(folder)) == 2


def test_measured_numbers_become_invalid_when_the_data_is_lost_and_the_sweep_ends(swept, folder):
    with pytest.raises(ChangedError, match="^the data set was changed .* after the sweep began: run the sweep again"):
        swept([make_cell("lose data"), make_cell("raise")])
    (lost,) = record.read_all(folder.glob(RECORDS))
    assert (lost.status, lost.measurement is None) == (Status.invalid, False)
    assert lost.reason.startswith("the data set was changed (")


CHANGED = "your code or weights were changed while it was measured: run the sweep again"


@pytest.mark.parametrize(
    ("fault", "reason"), [("touch mine/nets.py", None), ("change mine/nets.py", CHANGED), ("change w.bin", CHANGED)]
)
def test_a_file_of_the_users_that_changes_while_it_is_measured_makes_the_numbers_invalid(swept, project, fault, reason):
    (project / "mine").mkdir()
    (project / "mine/nets.py").write_text("class Net: ...")
    (project / "w.bin").write_bytes(b"weights")
    own = {"library": Library.custom, "network": "mine.nets.Net", "weights": str(project / "w.bin")}
    (found,) = swept([make_cell(model=ModelSpec(name="Net", args={"fault": fault}, **own))])[0].records
    assert (found.status, found.reason) == (Status.invalid if reason else Status.ok, reason)
    assert found.measurement is not None


def test_what_does_not_run_here_is_a_record_with_its_reason_until_it_is_supported(swept, monkeypatch):
    result, text = swept([make_cell(device=Device.tpu), make_cell(precision=Precision.tf32), make_cell()])
    assert statuses(result) == [Status.skipped, Status.skipped, Status.ok]
    assert result.num_unexpected == 0
    for found in result.records[:2]:
        assert found.measurement is None
        assert f"skipped 1: {found.reason}" in text
    with monkeypatch.context() as patched:
        patched.setattr("accelbench.grid.plan.why_not", lambda cell, report: "not today")
        assert statuses(swept(of_sizes(8))[0]) == [Status.skipped]
    assert statuses(swept(of_sizes(8))[0]) == [Status.ok]


@pytest.mark.parametrize("out", ["results/mnist_networks", "..", "runs", "/tmp/x", "runs/loop/x"])
def test_the_command_line_writes_under_runs_alone_and_through_no_circle_of_links(swept, project, out):
    (project / "runs").mkdir()
    (project / "runs/loop").symlink_to("loop")
    told = "Too many levels of symbolic links" if "loop" in out else "should be a folder under runs/"
    with pytest.raises(UserError, match=told):
        swept([make_cell()], out=out)
