"""Replays with the engine that does what a cell's fault says (`fakes`), whose speed its batch decides: 100 times it."""

import io
import json
import re
import time
from types import SimpleNamespace

import pytest
from rich.console import Console

import beside
from accelbench.answers.cells import Word, cells_of, gap
from accelbench.answers.process import Process
from accelbench.bundle import replay as replaying
from accelbench.bundle.archive import pack
from accelbench.bundle.replay import Claim, key_of, replay
from accelbench.cli import main
from accelbench.compare.sureness import Judgement
from accelbench.grid.fingerprint import fingerprint
from accelbench.project import RECORDS
from accelbench.report.read import read_all
from accelbench.schema.cell import KerasSettings
from accelbench.schema.measurement import Block, Data
from accelbench.schema.vocab import Device, Engine, Library, Protocol, Status, Stop
from accelbench.schema.workload import ModelSpec
from bundle.test_bundle import changed
from fakes import make_cell, make_measurement, make_record, write_sweep
from judging.test_disturbed import load
from marks import slow
from sweep.conftest import project, shared  # noqa: F401

BUDGET_S = 120.0


def bundled(root, speeds, fault="batch decides", cpu=None, data=None, **changes):
    """A bundle of a cell of each batch with this speed; of a machine with another CPU, if one is named."""
    machine = fingerprint()["machine"] | ({"cpu_name": cpu} if cpu else {})
    records = [
        make_record(
            make_cell(fault, batch_size=batch, **changes),
            measurement=make_measurement(
                blocks=[Block(num_steps=10, num_samples=speed // 10, seconds=0.1)] * 8, latency_s=[batch / 1e3] * 64
            ),
            environment={"machine": machine, "versions": {"torch": "1.0"}} if cpu != "unknown" else {},
            wall_s=7.0,
            data=data,
        )
        for batch, speed in speeds.items()
    ]
    folder = write_sweep(root / "theirs", *records)
    pack(folder, read_all(folder), root / "theirs.zip")
    return str(root / "theirs.zip")


def replayed(name, hosts, num=5, budget_s=BUDGET_S, trusts=False):
    console = Console(file=io.StringIO(), width=300)
    status = replay(name, num, budget_s, console, hosts, trusts=trusts)
    return status, console.file.getvalue()


TRUE = {1: 100, 8: 800, 32: 3200}


@pytest.mark.parametrize(
    ("speeds", "cpu", "fault", "found", "status"),
    [
        slow(TRUE, None, "", ["holds", "holds", "same", "same", "same"], 0),
        (TRUE | {1: 50}, None, "", ["holds", "holds, by less", "faster", "same", "same"], 1),
        ({1: 800, 8: 3200, 32: 1600}, "another", "", ["doesn't hold", "holds, by more"], 1),
        (TRUE, "another", " 8", ["can't tell", "holds"], 0),
    ],
)
def test_what_holds_here_of_a_bundle(shared, project, speeds, cpu, fault, found, status):  # noqa: F811
    name, began_s = bundled(project, speeds, f"batch decides{fault}", cpu), time.monotonic()
    said = replayed(name, shared)
    assert time.monotonic() - began_s < BUDGET_S
    (folder,) = (project / "runs").glob("*-replay")
    kept = json.loads((folder / "replay.json").read_text())
    assert [each["found"] for each in kept["findings"]] == found
    assert (said[0], kept["equal_machine"]) == (status, cpu is None), said[1]
    assert all(f"{each['found']:<15} {each['what']}" in said[1] for each in kept["findings"])
    assert len([*folder.glob(RECORDS)]) == 5 * len(speeds)
    assert "with another torch" in said[1]
    assert ("a bad batch" in said[1]) == bool(fault)


def test_speeds_on_other_data_are_not_compared(shared, project):  # noqa: F811
    data = Data(name="mnist", digest="d" * 64, source="the original files", stand_in=False)
    status, text = replayed(bundled(project, {8: 800, 32: 3200}, data=data), shared)
    found = re.findall(r"^(holds|can.t tell) .*\(the data here are others", text, re.MULTILINE)
    assert found == ["holds", "can't tell", "can't tell"]
    assert status == 0


OWN = ModelSpec(name="own", library=Library.custom, network="os.system", args={"command": "touch ran"})


@pytest.mark.parametrize(
    ("changes", "num", "budget_s", "why"),
    [
        ({"model": OWN}, 5, BUDGET_S, "os.system is not in the bundle"),
        ({"python": "program"}, 5, BUDGET_S, "program is not in the bundle"),
        ({"python": "gone"}, 5, BUDGET_S, "python=gone: no such file or folder"),
        ({"engine": Engine.keras, "keras": KerasSettings(tpu="grpc://x")}, 5, BUDGET_S, "grpc://x is"),
        ({"protocol": Protocol.target}, 5, BUDGET_S, "has no speed to compare"),
        ({"device": Device.gpu}, 5, BUDGET_S, "no NVIDIA"),
        ({}, 1, BUDGET_S, "--cells takes more"),
        ({}, 5, 60.0, "a longer --budget takes more"),
        ({"cpu": "unknown"}, 1, BUDGET_S, "The bundle was measured on an unknown machine"),
    ],
)
def test_what_is_not_measured_says_why(shared, project, changes, num, budget_s, why):  # noqa: F811
    (project / "program").write_text("#!/bin/sh\ntouch ran\n")
    (project / "program").chmod(0o755)
    name, trusts = bundled(project, {1: 100, 8: 800}, **{"cpu": "another"} | changes), why.startswith("python=")
    status, text = replayed(name, shared, num, budget_s, trusts=trusts)
    assert (status, why in text) == (1, True), text
    assert not (project / "runs").exists()
    assert not (project / "ran").exists()


@pytest.mark.parametrize(
    ("there", "here", "num", "expected"),
    [
        ((1.01, Word.same), (0.99, Word.same), 5, "holds"),
        ((1.5, Word.likely), (0.7, Word.sure), 5, "doesn't hold"),
        ((1.5, Word.likely), (1.5, Word.likely), 4, "can't tell"),
    ],
)
def test_what_becomes_of_a_claim(monkeypatch, there, here, num, expected):
    cells = make_cell(), make_cell(batch_size=8)
    side = SimpleNamespace(speed=1.0, num_processes=num, data_digest=None)
    monkeypatch.setattr(replaying, "gap", lambda *_: Judgement(ratio=here[0], word=here[1]))
    claim = Claim("", cells, Judgement(ratio=there[0], word=there[1]))
    found = replaying._of_claim(claim, {key_of(cell): side for cell in cells}, {})
    assert found.found == expected
    assert (num == 5) == (not found.why)


@pytest.mark.slow
def test_what_can_not_be_told_is_measured_once_more_in_the_time_that_is_left(shared, project, monkeypatch):  # noqa: F811
    def judged(first, second):
        is_open = (second.cell.batch_size, second.num_processes) == (8, 5)
        return gap(first, second) if not is_open else Judgement(ratio=1.0, word=Word.cant_tell, why="it is not yet")

    monkeypatch.setattr(replaying, "gap", judged)
    monkeypatch.setattr(replaying, "MOST", 2)
    status, text = replayed(bundled(project, TRUE, "batch decides", "another"), shared)
    assert (status, re.findall("^holds|^can't tell", text, re.MULTILINE)) == (0, ["holds", "holds"])
    assert "Not all can be told yet: measures 2 cells 2 times more" in text
    assert len([*project.glob(f"runs/*/{RECORDS}")]) == 3 * 5 + 2 * 2


@pytest.mark.parametrize(
    ("rates", "others", "expected", "is_undecided"),
    [
        ((3200, 250), (0.5, 101), "can't tell: other programs used the CPU meanwhile", True),
        ((3200, 250), (101, 0.5), "slower: ", False),
        ((250, 3200), (101, 0.5), "can't tell: other programs used the CPU meanwhile", True),
        ((250, 3200), (0.5, 101), "faster: ", False),
    ],
)
def test_other_programs_explain_that_the_session_beside_them_was_slower(rates, others, expected, is_undecided):
    there, here = (
        cells_of([Process.of(beside.make_record(load(other, 99, 4), rate=rate, latency_s=[32 / rate] * 64))])[0]
        for rate, other in zip(rates, others, strict=True)
    )
    found = replaying._of_cell(there, here)
    assert (f"{found.found}: {found.why}", found.is_undecided) == (expected, is_undecided)


def test_a_process_that_the_budget_ended_says_so():
    record = make_record(make_cell(timeout_s=6.0), Status.timeout)
    (here,) = cells_of([Process.of(record)])
    said = "over 6 s, a tenth of the budget: give a longer --budget"
    assert replaying._why(here, make_cell(timeout_s=600.0)) == said
    assert replaying._why(here, make_cell(timeout_s=6.0)) == record.reason
    # The one step that there was time for is apart from all others, and tells no speed.
    step = {"blocks": [Block(num_steps=1, num_samples=32, seconds=0.3)], "latency_s": [0.3]}
    (there,), (cut,) = (
        cells_of([Process.of(make_record(make_cell(timeout_s=limit_s), measurement=make_measurement(**measured)))])
        for limit_s, measured in ((600.0, {}), (6.0, step | {"stop": Stop.timeout}))
    )
    found = replaying._of_cell(there, cut)
    assert (found.found, found.why) == ("can't tell", said)


def test_what_is_no_bundle_or_a_wrong_one_is_refused(project, capsys):  # noqa: F811
    bundled(project, TRUE)
    changed(project / "theirs.zip", lambda files: files.update({"cells.csv": b""}), fix=True)
    for name, said in (("none.zip", "zip: no such file"), ("other.zip", "not replayed"), ("study:003", "not here")):
        assert main(["replay", name]) == 2
        assert said in capsys.readouterr().err
    assert main(["replay", "--cells=0", "theirs.zip"]) == 2
