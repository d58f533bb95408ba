"""Waiting for a quiet machine, and what a sweep repeats then. The load is told, since the machine may be busy."""

import dataclasses
import re

import pytest

from accelbench.devices.proc import CpuTimes
from accelbench.errors import UserError
from accelbench.isolation.hosts import Hosts
from accelbench.report import read
from accelbench.schema.vocab import Status
from accelbench.search.race import Goal
from accelbench.settings.config import Retry
from accelbench.sweep import session
from accelbench.sweep.prober import Quiet
from beside import BUSY, REASON, series
from beside import quiet as without_load
from fakes import faulty_host, make_cell, make_options

OPTIONS = make_options()
GOAL = Goal(by="throughput", latency_ms=None, margin=0.02, budget_s=60.0)
BUSY_CORE, STOLEN, IDLE = (1.0, 0.0), (0.1, 0.5), (0.1, 0.0)  # cores that are used, and stolen, in a second


class Machine:
    """Cores that are as busy as they are told to be, second after second; the last load stays."""

    def __init__(self, *loads):
        self.loads, self.slept_s, self.said = list(loads), 0.0, []
        self.times = CpuTimes(1000.0, 10.0)

    def look(self):
        return self.times

    def sleep(self, seconds):
        self.slept_s += seconds
        used, stolen = self.loads.pop(0) if len(self.loads) > 1 else self.loads[0]
        self.times = CpuTimes(self.times.busy_s + seconds * used, self.times.stolen_s + seconds * stolen)

    def quiet(self, quiet_s):
        return Quiet(quiet_s, self.said.append, self.look, self.sleep)


@pytest.mark.parametrize(
    ("loads", "slept_s"), [([IDLE], 1), ([BUSY_CORE, BUSY_CORE, IDLE], 3), ([STOLEN, BUSY_CORE, STOLEN, IDLE], 4)]
)
def test_it_waits_as_long_as_others_use_the_cores_and_no_longer(loads, slept_s):
    machine = Machine(*loads)
    assert machine.quiet(30).comes("a cell was disturbed")
    assert machine.slept_s == slept_s
    assert machine.said == ["a cell was disturbed: waits up to 30 s for a quiet machine, to repeat it ..."]


def test_on_a_machine_that_is_never_quiet_all_waits_together_have_an_end():
    machine = Machine(BUSY_CORE)
    waiting = machine.quiet(30)
    assert not any(waiting.comes("a cell was disturbed") for _ in range(500))
    assert machine.slept_s == 120
    assert len(machine.said) == 4


class Loaded(Hosts):
    """Hosts on a machine that is busy beside the first cells that run, as often as told."""

    def __init__(self, *, busy):
        super().__init__(faulty_host)
        self.loads = [BUSY] * busy
        self.num_runs = 0

    def run(self, cell, data_folder, weights=None, requests=None):
        self.num_runs += 1
        outcome = super().run(cell, data_folder, weights)
        system = series(self.loads.pop() if self.loads else without_load())
        if outcome.measurement is None:
            return outcome
        steady = dataclasses.replace(outcome.measurement, steady_boot_s=(101.0, 102.0))
        return dataclasses.replace(outcome, measurement=steady, system=system)


@pytest.fixture
def machine(monkeypatch):
    """The load that waiting sees; `allowed` is not set, as elsewhere in the tests."""
    told = Machine(IDLE)
    monkeypatch.delenv("ACCELBENCH_BUSY")
    monkeypatch.setattr(session, "Quiet", lambda quiet_s, say: Quiet(quiet_s, say, told.look, told.sleep))
    return told


@pytest.fixture
def loaded(swept):
    """A function that sweeps beside `busy` loads: the records, how often cells ran, and what was said."""

    def loaded(cells, busy, **options):
        hosts = Loaded(busy=busy)
        result, text = swept(cells, hosts, **options)
        return result.records, hosts.num_runs, text

    return loaded


def outcomes(project):
    (sweep,) = read.read_all(project / "runs/test")
    return [reported.outcome for reported in sweep.cells]


def test_a_disturbed_cell_is_repeated_on_the_quiet_machine_and_counts(loaded, project, machine):
    (record,), num_runs, said = loaded([make_cell()], busy=1)
    assert (num_runs, record.status, machine.slept_s) == (2, Status.ok, 1)
    assert outcomes(project) == ["ok"]
    assert f"mlp-cpu-fp32-b32-infer was disturbed ({REASON}): waits up to 30 s for a quiet machine" in said
    assert record.measurement.notes == [f"measured again: the first time, {REASON}"]


def test_a_cell_that_is_disturbed_again_is_marked_and_not_repeated_once_more(loaded, project, machine):
    (record,), num_runs, said = loaded([make_cell()], busy=9)
    assert (num_runs, record.status) == (2, Status.ok)
    assert outcomes(project) == ["disturbed"]
    assert re.search(rf"\[1/1\] +mlp infer pytorch cpu fp32 b32 +disturbed: {re.escape(REASON)}", said)
    assert record.measurement.blocks  # the raw times stay


def test_a_machine_that_stays_busy_costs_a_wait_and_no_repeat(loaded, project, machine):
    machine.loads = [BUSY_CORE]
    cells = [make_cell(batch_size=size) for size in (1, 2, 4, 8)]
    _, num_runs, said = loaded(cells, busy=9)
    assert num_runs == 4
    assert machine.slept_s == 120
    assert outcomes(project) == ["disturbed"] * 4
    assert f"  disturbed: {REASON}; answers leave such a cell out." in said
    assert "  To measure again: the same command with out=runs/test retry=failed; if a machine" in said
    assert "set ACCELBENCH_BUSY=allowed to use disturbed cells" in said
    retried, num_runs, _ = loaded(cells, busy=0, retry=Retry.failed)
    assert (num_runs, outcomes(project)) == (4, ["ok"] * 4)


def test_where_it_is_allowed_a_cell_counts_and_its_record_says_so(loaded, project, machine, monkeypatch):
    monkeypatch.setenv("ACCELBENCH_BUSY", "allowed")
    (record,), num_runs, _ = loaded([make_cell()], busy=1)
    assert (num_runs, outcomes(project), record.environment["busy"]) == (1, ["ok"], "allowed")
    (sweep,) = read.read_all(project / "runs/test")
    assert "other processes used 121 % of a core during the measurement" in sweep.cells[0].row["warnings"]
    monkeypatch.setenv("ACCELBENCH_BUSY", "yes")
    with pytest.raises(UserError, match="ACCELBENCH_BUSY=yes: unknown value. Use allowed to accept cells"):
        loaded([make_cell()], busy=1)
