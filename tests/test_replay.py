"""Replays with the engine that does what a cell's fault says (`fakes`).

Its speed is 100 times its batch, and half of that in bf16.
"""

import io
import re

import pytest
from rich.console import Console

from accelbench.bundle import pack
from accelbench.cli import main
from accelbench.project import RECORDS
from accelbench.replay import replay
from accelbench.report.read import read_all
from accelbench.schema.cell import Device, Library, ModelSpec, Precision
from accelbench.schema.measurement import Block
from fakes import make_cell, make_measurement, make_record, write_sweep
from marks import slow
from sweep.conftest import shared  # noqa: F401
from tests.test_bundle import changed

BUDGET_S = 120.0


def bundled(root, speeds, fault="batch decides", **changes):
    """A bundle of a cell of each batch, of each precision, or of each (precision, batch), with this speed."""
    records = []
    for values, speed in speeds.items():
        of_cell = values if isinstance(values, tuple) else (values,)
        settings = {"batch_size" if isinstance(value, int) else "precision": value for value in of_cell}
        cell = make_cell(fault, **settings, **changes)
        blocks = [Block(num_steps=10, num_samples=speed // 10, seconds=0.1)] * 8
        records.append(make_record(cell, measurement=make_measurement(blocks=blocks, precision=cell.precision.value)))
    folder = write_sweep(root / "theirs", *records)
    pack(folder, read_all(folder), root / "theirs.zip")
    return str(root / "theirs.zip")


def replayed(name, hosts, num=5, budget_s=BUDGET_S):
    console = Console(file=io.StringIO(), width=300)
    status = replay(name, num, budget_s, console, hosts)
    return status, console.file.getvalue()


TRUE = {1: 100, 8: 800, 32: 3200}
# The headline is fp32's lead at batch 8. At batch 32, where bf16 is fastest, the gain of bf16 is undecided.
LEAD = {(Precision.fp32, 8): 6400, (Precision.fp32, 32): 3200, (Precision.bf16, 8): 800, (Precision.bf16, 32): 3200}


@pytest.mark.parametrize(
    ("speeds", "fault", "words", "status"),
    [
        (TRUE, "", ["holds", "holds"], 0),
        ({1: 800, 8: 3200, 32: 1600}, "", ["doesn't hold", "holds"], 1),
        ({Precision.fp32: 3200, Precision.bf16: 800}, "", ["holds"], 0),  # bf16 is slower, here too
        (LEAD, "", ["holds"], 0),
        slow(TRUE, " 8", ["can't tell", "holds"], 0),
    ],
)
def test_what_holds_here_of_a_bundle(shared, project, speeds, fault, words, status):  # noqa: F811
    found_status, text = replayed(bundled(project, speeds, f"batch decides{fault}"), shared)
    (folder,) = (project / "runs").glob("*-replay")
    found = [line.partition("  ")[0] for line in text.splitlines() if line.startswith(("holds ", "doesn't", "can't"))]
    assert found_status == status
    assert [word.strip() for word in found] == words, text
    assert len([*folder.glob(f"*/{RECORDS}")]) == 2 * 5 * len(words)
    assert len([*folder.glob("*/compare.json")]) == len(words)
    # The claimed faster cell is B, which is compared with A.
    assert all(float(ratio) >= 1 for ratio in re.findall(r"([\d.]+) times \(\w+\) in the bundle", text))
    assert "0.50x" not in text or "doesn't hold" in text


OWN = ModelSpec(name="own", library=Library.custom, network="os.system", args={"command": "touch ran"})


@pytest.mark.parametrize(
    ("changes", "num", "budget_s", "why"),
    [
        ({"model": OWN}, 5, BUDGET_S, "os.system is not in the bundle"),
        ({"python": "program"}, 5, BUDGET_S, "program is not in the bundle"),
        ({"device": Device.gpu}, 5, BUDGET_S, "no NVIDIA"),
        ({}, 1, BUDGET_S, "needs a larger --cells"),
        ({}, 5, 1.0, "needs a longer --budget: the first takes about 10 s"),  # for its ten processes
    ],
)
def test_what_is_not_measured_says_why(shared, project, changes, num, budget_s, why):  # noqa: F811
    (project / "program").write_text("#!/bin/sh\ntouch ran\n")
    (project / "program").chmod(0o755)
    status, text = replayed(bundled(project, {1: 100, 8: 800}, **changes), shared, num, budget_s)
    assert (status, why in text) == (1, True), text
    assert not (project / "runs").exists()
    assert not (project / "ran").exists()


def test_what_is_no_bundle_or_a_wrong_one_is_refused(project, capsys):
    bundled(project, {8: 800})
    changed(project / "theirs.zip", lambda files: files.update({"cells.csv": b""}), fix=True)
    no_claims = "has no comparison that is sure, likely or the same. Run `accelbench compare --top FOLDER` with"
    for name, problem in {"none.zip": "No such file", "other.zip": "not replayed", "theirs.zip": no_claims}.items():
        assert main(["replay", name]) == 2
        assert problem in capsys.readouterr().err
    assert main(["replay", "--cells=0", "theirs.zip"]) == 2
    assert "--cells 0: should be" in capsys.readouterr().err
