"""Real cells beside a busy process: none is published with a false speed.

The generator burns one core for a limited time. Whether the machine is quiet otherwise is looked at, not assumed.
"""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from accelbench.cli import main
from accelbench.report import read
from accelbench.sweep.prober import Quiet
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
# The true speed: no wait, no measuring tool, the fastest second of several.
LOOP = """
import sys, time, torch, nets
torch.set_num_threads(2)
net, x, rates = nets.Net().eval(), nets.batch(8), []
with torch.inference_mode():
    for second in range(5):
        num, start = 0, time.perf_counter()
        while (end := time.perf_counter()) < start + 0.5:
            net(x)
            num += 8
        rates.append(num / (end - start))
print(max(rates))
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


def true_speed(folder):
    done = subprocess.run([sys.executable, "-c", LOOP], cwd=folder, capture_output=True, text=True, check=True)
    return float(done.stdout)


def is_quiet():
    """Whether nothing else ran for a second."""
    return Quiet(1.0, lambda line: None).comes("")


def test_beside_as_many_busy_processes_as_cores_a_cell_has_no_number(nets):
    cores = len(os.sched_getaffinity(0))
    with burning(cores):
        found = measured("busy", "quiet_s=0", f"threads={cores}")
    assert found.outcome == "disturbed"
    assert found.row["samples_per_s"] is None
    assert f"of {cores} cores" in found.disturbed


def test_a_published_speed_is_within_a_quarter_of_the_quiet_one(nets):
    if not is_quiet():
        pytest.skip("other processes ran for the second before the test: the true speed can't be known")
    before = true_speed(nets)
    quiet = measured("quiet", "quiet_s=0")
    with burning(1):
        beside = measured("beside", "quiet_s=0")
    after = true_speed(nets)
    if min(before, after) < 0.9 * max(before, after):
        pytest.skip(f"the true speed was {before:,.0f} before and {after:,.0f} samples/s after: which holds is unknown")
    if not is_quiet():
        pytest.skip("other processes ran for the second after the test: the true speed can't be known")
    truth = max(before, after)
    assert quiet.is_ok, quiet.disturbed
    for reported in (quiet, beside):
        if reported.is_ok:
            assert reported.number("samples_per_s") == pytest.approx(truth, rel=0.25)
    if len(os.sched_getaffinity(0)) == 2:
        assert beside.outcome == "disturbed"
