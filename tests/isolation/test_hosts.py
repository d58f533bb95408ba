import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from accelbench.devices import allocators
from accelbench.isolation import hosts as hosts_module
from accelbench.isolation.hosts import SUBSTITUTING, Hosts
from accelbench.isolation.usage_sampler import descendants
from accelbench.schema.cell import Allocator, Options, Status
from fakes import TESTS, faulty_host, is_gone, make_cell


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
