"""Sweeps through real forkservers, of the engine that fails as told (`fakes`)."""

import errno
import io
import json
import os
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from accelbench import lock
from accelbench.answers.cells import Process, cells_of
from accelbench.answers.jobs import jobs
from accelbench.cli import main
from accelbench.data.arrays import read_manifest
from accelbench.errors import ChangedError, UserError
from accelbench.grid import fingerprint, plan
from accelbench.isolation.hosts import Hosts
from accelbench.project import RECORDS, REQUESTS, Workplace
from accelbench.schema import plan_file, record
from accelbench.schema.cell import DataSpec, Device, Engine, Library, ModelSpec, Precision, Protocol, Status
from accelbench.settings.config import Retry
from accelbench.sweep.session import prepare_missing
from fakes import TESTS, faulty_host, make_cell, make_environment

FOLDER = Path("runs/test")


def written():
    return {(path.name, path.stat().st_mtime_ns) for path in FOLDER.glob(RECORDS)}


def of_sizes(*sizes):
    return [make_cell(batch_size=size) for size in sizes]


def statuses(result):
    return [found.status for found in result.records]


def test_a_served_cell_that_fails_keeps_no_requests_of_an_earlier_one(swept, project):
    cell = make_cell("raise", protocol=Protocol.server)
    for _ in range(2):
        result, _ = swept([cell], retry=Retry.failed)
        stale = FOLDER / f"{result.records[0].name}{REQUESTS}"
        assert (statuses(result), stale.exists()) == ([Status.failed], False)
        stale.touch()


FAULTS = {
    "none": Status.ok,
    "raise": Status.failed,
    "memory": Status.oom,
    "hang": Status.timeout,
    "signal": Status.killed,
    "other device": Status.invalid,
}


def test_whatever_happens_to_a_cell_is_a_record_and_retry_tries_again_what_may_end_otherwise(swept, project):
    cells = [make_cell(fault, timeout_s=0.5 if fault == "hang" else 60.0) for fault in FAULTS]
    result, text = swept([*cells, make_cell(batch_size=8), make_cell(device=Device.tpu)])
    assert statuses(result) == [*FAULTS.values(), Status.ok, Status.skipped]
    assert (result.num_unexpected, result.records[-1].measurement) == (5, None)
    assert f"skipped 1: {result.records[-1].reason}" in text
    assert list(plan_file.read_planned(FOLDER)) == result.records
    assert "2 ok, 1 failed, 1 oom, 1 timeout, 1 killed, 1 invalid, 1 skipped" in text
    assert text.count("failed  ValueError: a bad layer") == text.count("fp32 b32 fault=raise") == 1
    assert "Records: runs/test" in text
    before = written()
    # Another suite's sweep has another id, also within the same second.
    text = swept(cells, suite="later", is_auto=True)[1]  # its progress says nothing of what is known
    assert text.startswith("device=auto: cpu (")
    assert text.count(f"{result.records[1].label}: failed: ValueError: a bad layer") == 1
    assert written() == before
    result, _ = swept(cells, retry=Retry.failed)
    again = {name for name, _ in written() - before}
    found = {each.status for each in result.records if f"{each.name}.json" in again}
    assert found == {Status.failed, Status.timeout, Status.killed}


def test_a_record_is_there_before_the_next_cell_starts_and_holds_what_it_depended_on(swept, project):
    seen = []

    class Watching(Hosts):
        def run(self, cell, data_folder, weights=None, requests=None):
            seen.append(len(written()))
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


def test_a_second_sweep_into_a_folder_runs_the_new_cells_only_and_adds_them_to_its_plan(swept, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(plan, "why_not", lambda cell, report: "not today")
        assert statuses(swept(of_sizes(8))[0]) == [Status.skipped]
    assert statuses(swept(of_sizes(8, 16))[0]) == [Status.ok] * 2  # the first one is supported now
    before = written()
    result, _ = swept(of_sizes(32, 16), title="Newest")
    assert len(written() - before) == 1
    assert [found.cell.batch_size for found in result.records] == [16, 32]  # the known ones first
    assert [found.cell.batch_size for found in plan_file.read_planned(FOLDER)] == [8, 16, 32]
    assert plan_file.read_plan(FOLDER).title == "Newest"
    (FOLDER / "plan.json").unlink()  # then the records there are planned
    swept(of_sizes(64))
    assert sorted(found.cell.batch_size for found in plan_file.read_planned(FOLDER)) == [8, 16, 32, 64]
    current, before = fingerprint.fingerprint(Engine.pytorch), written()
    monkeypatch.setattr(plan, "fingerprint", lambda engine: {**current, "code": "another"})
    (found,) = swept(of_sizes(8))[0].records  # by other code, or on another machine
    assert before < written()
    assert found in plan_file.read_planned(FOLDER)
    assert found.environment["code"] == "another"


def test_gains_are_over_the_first_cell_of_the_plan_if_another_one_runs_first(swept):
    slow = make_cell("batch decides", precision=Precision.bf16, repeat=1)
    fast = make_cell("batch decides", repeat=0)
    _, text = swept([slow, fast, replace(slow, repeat=2), replace(fast, repeat=3)])
    lines = re.findall(r"(bf16|fp32) b32 .*/s  ±0 % +(?:([\d.]+)x)?", text)
    assert lines == [("fp32", ""), ("bf16", ""), ("bf16", ""), ("fp32", "2.0")]
    assert [each.cell.precision for each in plan_file.read_planned(FOLDER)] == ["bf16", "fp32", "bf16", "fp32"]


def test_what_cannot_be_read_is_kept_and_its_cell_measured_again(swept, project):
    cells = of_sizes(8, 16, 32)
    first, _ = swept(cells)
    before = written()
    half, lost, _ = paths = [FOLDER / f"{found.name}.json" for found in first.records]
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
    assert len(written() - before) == 2


def test_a_full_disk_stops_the_sweep_which_goes_on_when_there_is_room(swept, monkeypatch):
    left = [None] * 2  # room for the plan and the first record

    def fsync(descriptor):
        if not left:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        left.pop()

    cells = of_sizes(8, 16, 32)
    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(UserError, match="^runs/test: disk full$"):
        swept(cells)
    before = written()
    assert sorted(path.name for path in FOLDER.iterdir()) == sorted(["plan.json", *(name for name, _ in before)])
    left += [None] * 100
    assert statuses(swept(cells)[0]) == [Status.ok] * 3
    assert len(written() - before) == 2


def test_measured_numbers_become_invalid_when_the_data_is_lost_and_the_sweep_ends(swept, project):
    with pytest.raises(ChangedError, match="^the data set was changed .* after the sweep began: run the sweep again"):
        swept([make_cell("lose data"), make_cell("raise")])
    (lost,) = record.read_all(FOLDER.glob(RECORDS))
    assert (lost.status, lost.measurement is None) == (Status.invalid, False)
    assert lost.reason.startswith("the data set was changed (")


@pytest.mark.parametrize(
    ("fault", "is_valid"), [("touch mine/nets.py", True), ("change mine/nets.py", False), ("change w.bin", False)]
)
def test_a_file_of_the_users_that_changes_while_it_is_measured_makes_the_numbers_invalid(swept, fault, is_valid):
    Path("mine").mkdir()
    Path("mine/nets.py").write_text("class Net: ...")
    Path("w.bin").write_bytes(b"weights")
    own = {"library": Library.custom, "network": "mine.nets.Net", "weights": str(Path("w.bin").resolve())}
    (found,) = swept([make_cell(model=ModelSpec(name="Net", args={"fault": fault}, **own))])[0].records
    told = "your code or weights were changed while it was measured: run the sweep again"
    assert (found.status, found.reason) == ((Status.ok, None) if is_valid else (Status.invalid, told))
    assert found.measurement is not None


@pytest.mark.parametrize("out", ["results/mnist_networks", "..", "runs", "/tmp/x", "runs/loop/x"])
def test_the_command_line_writes_under_runs_alone_and_through_no_circle_of_links(swept, project, out):
    Path("runs").mkdir()
    Path("runs/loop").symlink_to("loop")
    told = "Too many levels of symbolic links" if "loop" in out else "should be a folder under runs/"
    with pytest.raises(UserError, match=told):
        swept([make_cell()], out=out)


def test_each_cell_runs_in_its_environment_whose_versions_are_in_its_identity_and_in_the_answer(
    swept, shared, project, monkeypatch
):
    second, empty = map(str, (make_environment(project / "second", timm="99.0"), make_environment(project / "empty")))
    (site,) = Path(second).glob("lib/python*/site-packages")
    (site / "prints.pth").write_text("import sys; print('Hello', flush=True)\n")  # its interpreter does as it starts
    monkeypatch.setenv("VIRTUAL_ENV", sys.prefix)
    monkeypatch.setattr(sys, "path", [f"{sys.prefix}/bin", *sys.path])
    cells = [make_cell("tell environment", python=python) for python in (None, second, empty)]
    result, _ = swept(cells)
    home, other, skipped = result.records
    assert [each.status for each in result.records] == [Status.ok, Status.ok, Status.skipped]
    seen = json.loads((project / "data/mnist/environment.json").read_text())
    library = os.path.dirname(os.__file__)
    ours, *users = (path for path in seen["PYTHONPATH"].split(os.pathsep) if not path.startswith(library))
    assert (seen["sys.prefix"], os.listdir(ours)) == (second, ["accelbench"])
    assert users[:2] == [str(project), str(TESTS)]
    assert not any("site-packages" in folder for folder in users)
    assert (seen["PATH"].split(os.pathsep)[0], "VIRTUAL_ENV" in seen) == (f"{second}/bin", False)
    assert [key[0] for key in shared._hosts] == [None, second]
    assert other.environment["versions"] == {**home.environment["versions"], "timm": "99.0"}
    assert len({each.identity for each in result.records}) == 3
    needs = "msgspec, numpy, nvidia-ml-py, torch"
    assert skipped.reason.startswith(f"python={empty}: {needs} not installed there: {empty}/bin/python -m pip install")
    assert other.label == f"{make_cell().label}-second"
    (group,) = jobs(cells_of(map(Process.of, result.records)))
    assert {group.text(each).rpartition(", ")[2] for each in group.cells} == {"accelbench's own", "second"}


def test_a_missing_set_is_prepared_once_and_a_line_says_so_but_for_random_images(tmp_path):
    (tmp_path / "params.yaml").write_text("data: {random: {}}\n")
    np.savez(tmp_path / "mine.npz", images=np.zeros((40, 8, 8), np.uint8), labels=np.arange(40) % 2)
    arrays = DataSpec(name="arrays", path=str(tmp_path / "mine.npz"))
    out = io.StringIO()
    for spec in (arrays, arrays, DataSpec(name="random")):
        prepare_missing(Workplace.of_project(tmp_path), spec, Console(file=out, width=500))
    assert re.fullmatch(rf"Preparing {tmp_path}/data/arrays.*\n", out.getvalue())
    assert read_manifest(tmp_path / "data" / "random").name == "random"
    assert not (tmp_path / "data" / "random").exists()


@pytest.mark.fault
@pytest.mark.parametrize("words", ["", "-m seed=0,1"])
def test_a_typo_is_told_while_another_measures(words, here, monkeypatch, capsys):
    monkeypatch.setattr(lock, "_holder", lambda client: pytest.fail("it waits for the lock"))
    with lock.hold_measuring(pytest.fail):
        assert main([*words.split(), "model=custom", "model.target=foo.Bar", "mode=infer"]) == 2
    assert "foo" in capsys.readouterr().err.partition("model.target=foo.Bar: ")[2]


def test_no_cell_begins_once_the_budget_is_used_up_and_the_sweep_goes_on_from_there(swept):
    cells = [make_cell(batch_size=size, seed=seed) for size in (8, 16) for seed in range(3)]
    result, text = swept(cells, ends_after_s=1e-9)
    assert not result.records
    assert "2 cells (6 runs) to measure: " in text
    assert "The budget is used up: 0 of 6 cells have their record." in text
    _, text = swept(cells[::3], ends_after_s=1e-9)
    assert "2 cells to measure: " in text
    assert len(swept(cells[::3])[0].records) == 2
