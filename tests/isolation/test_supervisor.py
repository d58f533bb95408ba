"""Processes of cells: how they end, what they leave, and the hosts that start them."""

import itertools
import json
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median

import psutil
import pytest

from accelbench.devices import allocators
from accelbench.isolation import hosts as hosts_module
from accelbench.isolation import supervisor
from accelbench.isolation.hosts import SUBSTITUTING, Hosts
from accelbench.isolation.usage_sampler import Sampler, descendants
from accelbench.schema.cell import Allocator, Options, Status
from accelbench.schema.measurement import SystemSeries
from devices.fakes import FakeNvml
from fakes import TESTS, faulty_host, is_gone, make_cell


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


def test_a_host_passes_on_harmless_variables_what_cells_print_and_the_users_modules_and_leaves_no_files(
    tmp_path, monkeypatch
):
    heard = []
    for name in (*SUBSTITUTING, "ACCELBENCH_TEST_HARMLESS"):
        monkeypatch.setenv(name, "1")
    monkeypatch.chdir(tmp_path)
    for name in ("random", "code", "profile", "types"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('not Python')")
    (tmp_path / "mine.py").write_text("from random import random")
    with tempfile.TemporaryDirectory() as temporary:
        monkeypatch.setattr(tempfile, "tempdir", temporary)
        with Hosts(faulty_host) as running:
            running.listener = heard.append
            for fault in ("tell environment", "import mine"):
                assert running.run(make_cell(fault), tmp_path).reason is None
            assert heard == []  # the libraries print nothing
            assert running.run(make_cell("exit"), tmp_path).status == Status.failed
            assert "last words" in heard[0]
            (folder,) = Path(temporary).iterdir()
            assert any(folder.glob("pymp-*/listener-*"))  # the socket of the forkserver
        assert os.listdir(temporary) == []
    variables = json.loads((tmp_path / "environment.json").read_text())
    assert Path(variables["TMPDIR"]).parent == folder
    assert "ACCELBENCH_TEST_HARMLESS" in variables
    assert not variables.keys() & SUBSTITUTING


@pytest.mark.skipif(sys.platform != "linux", reason="needs glibc")
def test_a_cell_has_the_allocator_of_its_host(tmp_path):
    def host_of(cell):
        variables = allocators.environment(Allocator.glibc_reuse) if cell.batch_size == 32 else {}
        return replace(faulty_host(cell), environment=variables)

    reuse = Options(allocator=Allocator.glibc_reuse)
    with Hosts(host_of) as running:
        good, bad = (running.run(make_cell(batch_size=size, options=reuse), tmp_path) for size in (32, 64))
    assert (good.measurement.allocator, bad.measurement.allocator) == ("glibc_reuse", "glibc")
    assert good.measurement.allocator_library.startswith("libc")


@pytest.mark.parametrize("fault", ["killed", "stop host"])
def test_a_host_that_ends_or_stops_is_replaced(tmp_path, fault, monkeypatch):
    monkeypatch.setattr(hosts_module, "MARGIN_S", 0.3)
    with Hosts(faulty_host) as hosts:
        hosts.run(make_cell(), tmp_path)
        (running,) = hosts._hosts.values()
        family = [running.process.pid, *descendants(running.process.pid)]
        reason = "the host process did not answer in timeout_s, nor in the 0.3 s after it"
        if fault == "killed":
            os.kill(running.process.pid, signal.SIGKILL)
            running.process.wait()
            reason = "the process that starts cells died"
        outcome = hosts.run(make_cell("none" if fault == "killed" else fault, timeout_s=0.5), tmp_path)
        assert (outcome.status, outcome.reason) == (Status.killed, reason)
        assert all(is_gone(pid) for pid in family)
        assert hosts.run(make_cell(), tmp_path).status == Status.ok


@pytest.mark.parametrize(("victim", "devices"), [("sweep", 1), ("host", 2)])
def test_nothing_outlives_a_killed_sweep_or_host(tmp_path, victim, devices):
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from pathlib import Path; from fakes import *;"
        "from accelbench.isolation.hosts import Hosts\n"
        f"with Hosts(faulty_host) as hosts: hosts.run(make_cell('hang', devices={devices}), Path(sys.argv[2]))"
    )
    sweep = subprocess.Popen([sys.executable, "-c", code, str(TESTS), str(tmp_path)], stderr=subprocess.DEVNULL)
    marker = tmp_path / "child.pid"
    deadline = time.monotonic() + 60
    while not (marker.exists() and marker.read_text()) and time.monotonic() < deadline:
        time.sleep(0.05)
    child = int(marker.read_text())  # of the rank that wrote first; the other rank follows
    family = psutil.Process(sweep.pid).children(recursive=True)
    (host_process,) = psutil.Process(sweep.pid).children()
    os.kill(sweep.pid if victim == "sweep" else host_process.pid, signal.SIGKILL)
    is_gone_too = all(is_gone(process.pid) for process in family)
    sweep.kill()
    sweep.wait()
    assert is_gone_too
    assert child in {process.pid for process in family}


def exporting_host(cell):
    return replace(faulty_host(cell), exported_as=str(cell.batch_size))


def test_a_network_is_exported_once_by_a_process_of_its_own_and_again_after_it_made_room(tmp_path, monkeypatch):
    with Hosts(exporting_host) as hosts:
        for size, num, max_bytes in ((64, 1, 9e9), (64, 1, 9e9), (96, 2, 9e9), (64, 2, 9e9), (32, 3, 0), (64, 4, 9e9)):
            monkeypatch.setattr(hosts_module, "MAX_EXPORTS_BYTES", max_bytes)
            outcome = hosts.run(make_cell(batch_size=size), tmp_path)
            assert (outcome.status, outcome.measurement.artifact_bytes) == (Status.ok, 1 << 20)
            assert len(list(tmp_path.glob("exports.*"))) == num
        # How an export fails is the outcome of the cell, and the next one exports again.
        outcome = hosts.run(make_cell("no export", batch_size=8), tmp_path)
        assert (outcome.status, outcome.reason) == (Status.skipped, "no exporter takes it")
        (tmp_path / "other").mkdir()
        outcome = hosts.run(make_cell("die"), tmp_path / "other")
        assert (outcome.status, outcome.reason) == (Status.killed, "killed by signal 9 (SIGKILL)")
        assert hosts.run(make_cell("die"), tmp_path / "other").status == Status.ok


MB = 10**6
CODE = """
import resource, sys, time
def wait(text): print(text, flush=True); sys.stdin.readline()
def faults(): return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
wait("ready")
before = faults()
end = time.process_time() + float(sys.argv[2])
block = bytearray(int(sys.argv[1])); block[::4096] = b"x" * len(block[::4096])
while time.process_time() < end: pass
wait(faults() - before)
"""


@contextmanager
def shell(num_bytes=0, spin_s=0.0):
    """Starts a shell whose child allocates memory and spins for this processor time, then prints its page faults."""
    command = ["sh", "-c", '"$@"; true', "sh", sys.executable, "-c", CODE, str(num_bytes), str(spin_s)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, start_new_session=True, **pipes)
    try:
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def begin(process):
    process.stdin.write("\n")
    process.stdin.flush()


def sample_step(process):
    """Lets the child run its step; the samples before, during and after it."""
    sampler = Sampler(process.pid)
    sampler.sample()
    begin(process)
    while not select.select([process.stdout], [], [], 0.1)[0]:
        sampler.sample()
    time.sleep(0.1)
    sampler.sample()
    return sampler.series()


def total(series, name):
    lengths = [after - before for before, after in itertools.pairwise(series.t_s)]
    return sum(value * s for value, s in zip(series.values[name][1:], lengths, strict=True) if value is not None)


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_memory_page_faults_and_processor_time_of_a_childs_child_count():
    """The child ends its loop by its processor time, so the result also holds on a busy machine."""
    with shell(256 * MB, spin_s=0.6) as process:
        series = sample_step(process)
        faults = int(process.stdout.readline())
    memory = series.values["host_memory_mb"]
    assert memory[-1] - memory[0] == pytest.approx(256, rel=0.05)
    # Loose, because time passes between the time stamp of a sample and its counters on a busy machine.
    assert faults / 2 < total(series, "page_faults_per_s") < faults * 2
    assert 0 < total(series, "cpu_system_percent") < total(series, "cpu_utilization_percent")
    assert total(series, "cpu_utilization_percent") == pytest.approx(60, rel=0.1)
    # One thread uses at most one core, apart from the kernel's ticks. On a busy machine, a sample may be late.
    assert median(filter(None, series.values["cpu_utilization_percent"])) <= 125


@pytest.mark.skipif(not os.path.exists("/proc/self/schedstat"), reason="the kernel does not count it")
def test_two_processes_on_one_core_wait_for_each_other_and_see_each_other():
    with shell(spin_s=0.5) as one, shell(spin_s=60) as other:
        for pid in (*descendants(one.pid), *descendants(other.pid)):
            os.sched_setaffinity(pid, {min(os.sched_getaffinity(0))})
        begin(other)
        series = sample_step(one)
    assert total(series, "waiting_percent") >= 30
    assert total(series, "other_cpu_utilization_percent") >= 30
    assert series.num_cores == len(os.sched_getaffinity(0))


def test_a_vanished_process_ends_the_series_and_another_has_none():
    with shell() as process:
        sampler = Sampler(process.pid)
        sampler.sample()
        process.kill()
        process.wait()
        sampler.sample()
        assert len(sampler.series().t_s) == 1
        late = Sampler(process.pid)
        late.sample()
    assert late.series() == SystemSeries()
    assert late.series(peak_bytes=7).peak_host_bytes == 7


def test_one_failing_nvml_query_leaves_the_others(monkeypatch):
    FakeNvml(("A", "B"), failing=["nvmlDeviceGetPowerUsage"]).answer(monkeypatch, "1,0")
    sampler = Sampler(os.getpid(), num_gpus=1)
    sampler.sample()
    seen = {name: value for name, (value,) in sampler.series().values.items() if name.startswith("gpu_")}
    expected = {"memory_mb": 3000.0, "utilization_percent": 87, "power_w": None, "temperature_c": 61}
    expected |= {"energy_j": 1235.567, "throttled": 1.0, "sm_clock_mhz": 1410}
    assert seen == {f"gpu_0_{name}": value for name, value in expected.items()}
