"""A real cell beside busy processes is not published with a false speed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from accelbench.cli import main
from accelbench.report import read
from fakes import give_ceilings

BURN = "import time\nend = time.monotonic() + 120\nwhile time.monotonic() < end: pass"
WORDS = "model=mlp data=random mode=infer batch_size=512 tracking=none quiet_s=0 out=runs/busy"
CORES = len(os.sched_getaffinity(0))


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.skipif(CORES < 2, reason="two threads need two cores")
def test_beside_as_many_busy_processes_as_cores_a_cell_has_no_number(here, monkeypatch):
    monkeypatch.delenv("ACCELBENCH_BUSY")
    give_ceilings(here / "cache" / "accelbench")
    running = [subprocess.Popen([sys.executable, "-c", BURN]) for _ in range(CORES)]
    try:
        assert main([*WORDS.split(), f"threads={CORES}"]) == 0
    finally:
        for process in running:
            process.kill()
            process.wait()
    (sweep,) = read.read_all(Path("runs/busy"))
    (cell,) = sweep.cells
    assert (cell.outcome, cell.row["samples_per_s"]) == ("disturbed", None)
    assert f"of {CORES} cores" in cell.disturbed
