from datetime import UTC, datetime, timedelta

import pytest

from accelbench.grid.plan import Planned
from accelbench.isolation.hosts import Hosts
from accelbench.schema.conditions import Data
from accelbench.schema.vocab import Status
from accelbench.sweep.run_cell import run_cell
from fakes import faulty_host, make_cell

DATA = Data(name="mnist", digest="d" * 64, source="random pixels", stand_in=True)


class NoHosts(Hosts):
    """Hosts that must not be asked."""

    def run(self, cell, data_folder, weights=None):
        pytest.fail("a skipped cell was run")


@pytest.fixture(scope="module")
def hosts():
    with Hosts(faulty_host) as running:
        yield running


def ran(hosts, folder, fault="none", skip_reason=None):
    planned = Planned(make_cell(fault), "0123456789abcdef" * 4, skip_reason)
    return run_cell(planned, hosts, DATA, folder, {"code": "c0de"}, "a sweep")


def test_a_cell_that_ran_is_an_ok_record_with_all_that_is_known(hosts, tmp_path):
    before = datetime.now(UTC)
    found = ran(hosts, tmp_path)
    assert (found.status, found.reason, found.error) == (Status.ok, None, None)
    assert found.cell == make_cell()
    assert (found.data, found.environment, found.sweep_id) == (DATA, {"code": "c0de"}, "a sweep")
    assert found.name == f"{make_cell().id}-01234567"
    assert found.measurement.num_params == 10
    assert found.system.peak_host_bytes > 1_000_000
    started = datetime.fromisoformat(found.started_at)
    assert started.utcoffset() == timedelta(0)
    assert before - timedelta(milliseconds=1) <= started <= datetime.now(UTC)
    assert 0 < found.wall_s <= (datetime.now(UTC) - before).total_seconds() + 0.01


def test_a_cell_that_broke_keeps_its_words(hosts, tmp_path):
    found = ran(hosts, tmp_path, "raise")
    assert (found.status, found.reason) == (Status.failed, "ValueError: a bad layer")
    assert "with a second line" in found.error
    assert found.measurement is None


def test_what_was_measured_of_an_invalid_cell_is_kept(hosts, tmp_path):
    found = ran(hosts, tmp_path, "other device")
    assert found.status == Status.invalid
    assert found.measurement.device == "xla_cpu"


def test_a_skipped_cell_starts_no_process(tmp_path):
    found = ran(NoHosts(faulty_host), tmp_path, skip_reason="no such device here")
    assert (found.status, found.reason) == (Status.skipped, "no such device here")
    assert found.measurement is None
    assert found.system is None
    assert found.wall_s < 1
