"""A real cell beside busy processes is not published with a false speed."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from accelbench.cli import main
from accelbench.report import read
from fakes import give_ceilings

BURN = "import time\nend = time.monotonic() + 120\nwhile time.monotonic() < end: pass"
NET = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(*(torch.nn.Conv2d(16, 16, 3, padding=1) for _ in range(8)))

    def forward(self, x):
        return self.layers(x)

def batch(batch_size):
    return torch.randn(batch_size, 16, 48, 48)
"""
WORDS = "model=custom model.target=nets.Net model.batch=nets.batch mode=infer batch_size=8 threads=2 tracking=none"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two threads need two cores"),
]


@contextlib.contextmanager
def burning(num):
    """So many processes, each of which keeps a core busy."""
    running = [subprocess.Popen([sys.executable, "-c", BURN]) for _ in range(num)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


@pytest.fixture
def nets(here, monkeypatch):
    """A folder with a network of the user, where other load is not allowed, on a machine whose CPU was probed."""
    monkeypatch.delenv("ACCELBENCH_BUSY")
    (here / "nets.py").write_text(NET)
    give_ceilings(here / "cache" / "accelbench")
    return here


def measured(folder, *words):
    """The cell that was measured into runs/`folder`."""
    assert main([*WORDS.split(), f"out=runs/{folder}", *words]) == 0
    (sweep,) = read.read_all(Path("runs") / folder)
    return sweep.cells[0]


def test_beside_as_many_busy_processes_as_cores_a_cell_has_no_number(nets):
    cores = len(os.sched_getaffinity(0))
    with burning(cores):
        found = measured("busy", "quiet_s=0", f"threads={cores}")
    assert found.outcome == "disturbed"
    assert found.row["samples_per_s"] is None
    assert f"of {cores} cores" in found.disturbed
