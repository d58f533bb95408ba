"""Waiting for a quiet machine, and what a sweep repeats then. The load is told but in the last test."""

import dataclasses
import os
import re
import subprocess
import sys

import pytest

from accelbench.cli import main
from accelbench.devices.proc import CpuTimes
from accelbench.errors import UserError
from accelbench.isolation.hosts import Hosts
from accelbench.report import read
from accelbench.schema.cell import Status
from accelbench.settings.config import Retry
from accelbench.sweep import session
from accelbench.sweep.prober import Quiet
from beside import BUSY, REASON, series
from beside import quiet as without_load
from fakes import faulty_host, give_ceilings, make_cell

BUSY_CORE, STOLEN, IDLE = (1.0, 0.0), (0.1, 0.5), (0.1, 0.0)  # cores that are used, and stolen, in a second


class Machine:
    """Cores that are as busy as they are told to be, second after second; the last load stays."""

    def __init__(self, *loads):
        self.loads, self.slept_s, self.said = list(loads), 0.0, []
        self.times = CpuTimes(1000.0, 10.0)

    def sleep(self, seconds):
        self.slept_s += seconds
        used, stolen = self.loads.pop(0) if len(self.loads) > 1 else self.loads[0]
        self.times = CpuTimes(self.times.busy_s + seconds * used, self.times.stolen_s + seconds * stolen)

    def quiet(self, quiet_s=30, say=None):
        return Quiet(quiet_s, say or self.said.append, lambda: self.times, self.sleep)


@pytest.mark.parametrize(
    ("loads", "slept_s"), [([IDLE], 1), ([BUSY_CORE, BUSY_CORE, IDLE], 3), ([STOLEN, BUSY_CORE, STOLEN, IDLE], 4)]
)
def test_it_waits_as_long_as_others_use_the_cores_and_no_longer(loads, slept_s):
    machine = Machine(*loads)
    assert machine.quiet().comes("a cell was disturbed")
    assert machine.slept_s == slept_s
    assert machine.said == ["a cell was disturbed: waits up to 30 s for a quiet machine, to repeat it ..."]


class Loaded(Hosts):
    """Hosts on a machine that is busy beside the first cells that run, as often as told."""

    def __init__(self, busy):
        super().__init__(faulty_host)
        self.loads, self.num_runs = [BUSY] * busy, 0

    def run(self, cell, data_folder, weights=None, requests=None):
        self.num_runs += 1
        outcome = super().run(cell, data_folder, weights)
        system = series(self.loads.pop() if self.loads else without_load())
        steady = dataclasses.replace(outcome.measurement, steady_boot_s=(101.0, 102.0))
        return dataclasses.replace(outcome, measurement=steady, system=system)


@pytest.fixture
def machine(monkeypatch):
    """The load that waiting sees; `allowed` is not set, as elsewhere in the tests."""
    told = Machine(IDLE)
    monkeypatch.delenv("ACCELBENCH_BUSY")
    monkeypatch.setattr(session, "Quiet", told.quiet)
    return told


@pytest.fixture
def loaded(machine, swept, project):
    """A function that sweeps beside `busy` loads: the reported cells, how often cells ran, and what was said."""

    def loaded(busy, num_cells=1, out="runs/test", **options):
        hosts = Loaded(busy)
        _, text = swept([make_cell(batch_size=2**i) for i in range(num_cells)], hosts, out=out, **options)
        (sweep,) = read.read_all(project / out)
        return *sweep.cells, hosts.num_runs, text

    return loaded


def test_a_disturbed_cell_is_repeated_on_the_quiet_machine_and_counts_unless_it_is_disturbed_again(machine, loaded):
    cell, num_runs, said = loaded(busy=1)
    assert (num_runs, cell.outcome, machine.slept_s) == (2, "ok", 1)
    assert f"mlp-cpu-fp32-b1-infer was disturbed ({REASON}): waits up to 30 s for a quiet machine" in said
    assert cell.record.measurement.notes == [f"measured again: the first time, {REASON}"]
    cell, num_runs, said = loaded(busy=9, out="runs/again")
    assert (num_runs, cell.outcome, cell.record.status) == (2, "disturbed", Status.ok)
    assert re.search(rf"\[1/1\] +mlp infer pytorch cpu fp32 b1 +disturbed: {re.escape(REASON)}", said)


def test_a_machine_that_stays_busy_costs_a_wait_and_no_repeat(machine, loaded):
    machine.loads = [BUSY_CORE]
    *cells, num_runs, said = loaded(busy=9, num_cells=5)
    assert (num_runs, {each.outcome for each in cells}) == (5, {"disturbed"})
    assert machine.slept_s == 120  # four waits, and no more of them
    assert f"  disturbed: {REASON}; answers leave such a cell out." in said
    assert "  To measure again: the same command with out=runs/test retry=failed; if a machine" in said
    assert "set ACCELBENCH_BUSY=allowed to use disturbed cells" in said
    *cells, num_runs, _ = loaded(busy=0, num_cells=5, retry=Retry.failed)
    assert (num_runs, {each.outcome for each in cells}) == (5, {"ok"})


def test_where_it_is_allowed_a_cell_counts_and_its_record_says_so(machine, loaded, monkeypatch):
    monkeypatch.setenv("ACCELBENCH_BUSY", "allowed")
    cell, num_runs, _ = loaded(busy=1)
    assert (num_runs, cell.outcome, cell.record.environment["busy"]) == (1, "ok", "allowed")
    assert "other processes used 121 % of a core during the measurement" in cell.row["warnings"]
    monkeypatch.setenv("ACCELBENCH_BUSY", "yes")
    with pytest.raises(UserError, match="ACCELBENCH_BUSY=yes: unknown value. Use allowed to accept cells"):
        loaded(busy=1)


BURN = "import time\nend = time.monotonic() + 120\nwhile time.monotonic() < end: pass"
CORES = len(os.sched_getaffinity(0))
WORDS = f"model=mlp data=random mode=infer batch_size=512 tracking=none quiet_s=0 out=runs/busy threads={CORES}"


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.skipif(CORES < 2, reason="two threads need two cores")
def test_beside_as_many_busy_processes_as_cores_a_real_cell_has_no_number(here, monkeypatch):
    monkeypatch.delenv("ACCELBENCH_BUSY")
    give_ceilings(here / "cache" / "accelbench")
    running = [subprocess.Popen([sys.executable, "-c", BURN]) for _ in range(CORES)]
    try:
        assert main(WORDS.split()) == 0
    finally:
        for process in running:
            process.kill()
            process.wait()
    (sweep,) = read.read_all(here / "runs/busy")
    (cell,) = sweep.cells
    assert (cell.outcome, cell.row["samples_per_s"]) == ("disturbed", None)
    assert f"of {CORES} cores" in cell.disturbed
