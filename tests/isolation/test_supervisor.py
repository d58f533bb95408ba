"""How processes of cells end, and what they leave."""

import json
import re
import signal

import pytest

from accelbench.isolation import supervisor
from accelbench.isolation.hosts import Hosts
from accelbench.schema.cell import Status
from fakes import faulty_host, is_gone, make_cell


@pytest.mark.parametrize(
    ("fault", "devices", "status", "reason", "error"),
    [
        ("raise", 1, Status.failed, "ValueError: a bad layer", "raise ValueError"),
        ("exit", 1, Status.failed, "the process ended with exit code 3", "last words"),
        ("signal", 1, Status.killed, "killed by signal 11 (SIGSEGV)", ""),
        ("signal beside a fork", 1, Status.killed, "killed by signal 11 (SIGSEGV)", ""),  # the fork keeps its pipe open
        ("mistake", 1, Status.failed, "model.args: there is no such width", ""),
        # If there are several ranks, the outcome names the one that failed first, and the others end.
        ("raise@1", 2, Status.failed, "rank 1 of 2: ValueError: a bad layer", "raise ValueError"),
        ("killed@1", 2, Status.killed, "rank 1 of 2: killed by signal 9 (SIGKILL)", ""),
        ("mistake", 2, Status.failed, "model.args: there is no such width", ""),  # concerns all ranks
    ],
)
def test_every_way_to_end_is_told_apart_and_the_next_cell_runs(hosts, tmp_path, fault, devices, status, reason, error):
    outcome = hosts.run(make_cell(fault, devices=devices), tmp_path)
    assert outcome.status == status
    assert outcome.reason.startswith(reason)
    assert error in (outcome.error or "")
    assert outcome.user_error == (fault == "mistake")
    assert hosts.run(make_cell(devices=devices), tmp_path).status == Status.ok


@pytest.mark.parametrize(("fault", "devices"), [("hang", 1), ("hang@1", 2)])
def test_a_hang_ends_at_its_limit_and_takes_its_children_and_other_ranks_along(hosts, tmp_path, fault, devices):
    outcome = hosts.run(make_cell(fault, devices=devices, timeout_s=1.5), tmp_path)
    assert outcome.status == Status.timeout
    assert "1.5 s" in outcome.reason
    assert len(re.findall(r'fakes.py", line \d+ in run$', outcome.error, re.MULTILINE)) == devices  # all ranks
    files = ["child.pid", *(f"{rank}.pid" for rank in range(devices) if devices > 1)]
    assert all(is_gone(int((tmp_path / name).read_text())) for name in files)


def test_a_process_of_another_session_ends_before_the_next_cell_starts_and_the_hosts_own_stay(tmp_path):
    with Hosts(faulty_host) as running:
        running.start(make_cell())
        (started,) = running._hosts.values()
        assert running.run(make_cell("daemon"), tmp_path).status == Status.ok
        assert running.run(make_cell("tell processes"), tmp_path).status == Status.ok
        pids = json.loads((tmp_path / "processes.json").read_text())
        assert int((tmp_path / "daemon.pid").read_text()) not in pids
        assert started.process.poll() is None
        assert len(pids) == 4  # the host, its forkserver and resource tracker, and the cell


def test_a_cells_memory_is_sampled(hosts, tmp_path):
    small = hosts.run(make_cell(), tmp_path).system
    large = hosts.run(make_cell("allocate"), tmp_path).system
    # At its end, each cell loads about 14 MB. They count in the small cell's peak, but not in the large cell's: it has
    # freed its block by then.
    assert large.peak_host_bytes - small.peak_host_bytes == pytest.approx(256e6, rel=0.1)
    assert max(large.values["host_memory_mb"]) * 1e6 <= large.peak_host_bytes * 1.05
    assert min(len(small.t_s), len(large.t_s)) >= 2  # at the start and at the end, even of a short cell


def test_a_kill_by_the_kernel_for_memory_is_told_from_any_other():
    assert supervisor.death(-signal.SIGKILL, 1, "").status == Status.oom
    assert supervisor.death(-signal.SIGKILL, 0, "").status == Status.killed
    assert supervisor.death(-signal.SIGTERM, 1, "").status == Status.killed


def test_a_secret_at_the_edge_of_what_is_kept_of_a_log_is_masked(tmp_path, monkeypatch):
    """A text is first masked, then cut: after a cut, the rest of a secret would not be recognised."""
    monkeypatch.setenv("SERVICE_TOKEN", "q8ZpL2xVw7Rt5Ym")
    (tmp_path / "log").write_text("x" * 5000 + " q8ZpL2xVw7Rt5Ym" + "." * 3992)
    kept = supervisor.death(1, 0, supervisor.log_end(str(tmp_path / "log"))).error
    assert len(kept) == 4000
    assert set(kept) <= set("…x *.")
    # The part is left out that may begin with the rest of a word.
    monkeypatch.setattr(supervisor, "READ_BYTES", 100)
    (tmp_path / "log").write_text("a first line q8ZpL2xVw7\n" + 90 * "." + "\n")
    assert supervisor.log_end(str(tmp_path / "log")) == 90 * "." + "\n"
