import itertools
import os
import select
import subprocess
import sys
import time
from contextlib import contextmanager
from statistics import median

import pytest

from accelbench.isolation.usage_sampler import Sampler
from accelbench.schema.measurement import SystemSeries
from devices.fakes import FakeNvml

MB = 10**6


@contextmanager
def child(code, *args):
    """Starts a process that runs `code`. The first line of its standard output means that it is ready."""
    command = [sys.executable, "-c", code, *map(str, args)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline().strip() == "ready"
        yield process
    finally:
        process.kill()
        process.communicate()


def go_on(process):
    """Lets the child run its next step, and waits for its report."""
    process.stdin.write("\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


STEP = """
import mmap, signal, subprocess, sys, time
print("ready", flush=True); sys.stdin.readline()
{}
print("done", flush=True); sys.stdin.readline()
"""
ALLOCATE = STEP.format('block = bytearray(int(sys.argv[1])); block[::4096] = b"x" * len(block[::4096])')
SPIN = STEP.format("end = time.process_time() + float(sys.argv[1])\nwhile time.process_time() < end: pass")
# A child that runs the same code in its own child, with a step before and after.
NESTED = """
import subprocess, sys
code, arg = sys.argv[1:]
below = subprocess.Popen([sys.executable, "-c", code, arg], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
below.stdout.readline(); print("ready", flush=True)
while line := sys.stdin.readline():
    below.stdin.write(line); below.stdin.flush()
    print(below.stdout.readline().strip(), flush=True)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_memory_page_faults_and_the_kernels_time_for_them_of_a_childs_child_count(monkeypatch):
    monkeypatch.setattr("accelbench.isolation.usage_sampler.SHORTEST_INTERVAL_S", 0.0)
    with child(NESTED, ALLOCATE, 256 * MB) as process:
        sampler = Sampler(process.pid)
        sampler.sample()
        assert go_on(process) == "done"
        sampler.sample()
    series = sampler.series()
    before, after = series.values["host_memory_mb"]
    assert after - before == pytest.approx(256, rel=0.05)
    pages, seconds = 256 * MB // os.sysconf("SC_PAGE_SIZE"), series.t_s[1] - series.t_s[0]
    # Loose, because time passes between the time stamp of a sample and its counters on a busy machine.
    assert pages / 2 < series.values["page_faults_per_s"][1] * seconds < pages * 2
    assert 0 < series.values["cpu_system_percent"][1] <= series.values["cpu_utilization_percent"][1]


def sample_until_it_speaks(process, sampler):
    """Lets the child run its next step. Samples until the child reports its end, and once more."""
    process.stdin.write("\n")
    process.stdin.flush()
    while not select.select([process.stdout], [], [], 0.1)[0]:
        sampler.sample()
    time.sleep(0.1)
    sampler.sample()
    assert process.stdout.readline().strip() == "done"


def spent_s(series, name="cpu_utilization_percent"):
    """The seconds in a series of percentages: each value times the length of its interval, added up."""
    lengths = [after - before for before, after in itertools.pairwise(series.t_s)]
    shares = zip(series.values[name][1:], lengths, strict=True)
    return sum(percent / 100 * length for percent, length in shares if percent is not None)


def test_processor_time_of_a_spinning_process_below():
    """The child ends its loop by its processor time, so the result also holds on a busy machine."""
    with child(NESTED, SPIN, 0.6) as process:
        sampler = Sampler(process.pid)
        sampler.sample()
        sample_until_it_speaks(process, sampler)
    series = sampler.series()
    assert spent_s(series) == pytest.approx(0.6, rel=0.1)
    # One thread uses at most one core, apart from the kernel's ticks. On a busy machine, a sample may be late.
    assert median(filter(None, series.values["cpu_utilization_percent"])) <= 125


def test_a_vanished_process_ends_the_series_and_another_has_none():
    with child(ALLOCATE, 1) as process:
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
    gpu = {name: values for name, values in sampler.series().values.items() if name.startswith("gpu_")}
    assert gpu == {
        "gpu_0_memory_mb": [3000.0],
        "gpu_0_utilization_percent": [87],
        "gpu_0_power_w": [None],
        "gpu_0_temperature_c": [61],
        "gpu_0_energy_j": [1235.567],
        "gpu_0_throttled": [1.0],
        "gpu_0_sm_clock_mhz": [1410],
    }


@pytest.mark.skipif(not os.path.exists("/proc/self/schedstat"), reason="the kernel does not count it")
def test_two_processes_on_one_core_wait_for_each_other_and_see_each_other():
    """Two processes share one core. Each has half of it, and waits while the other one runs. Together they fill it."""
    core = min(os.sched_getaffinity(0))
    with child(SPIN, 0.5) as one, child(SPIN, 60) as other:
        for process in (one, other):
            os.sched_setaffinity(process.pid, {core})
        sampler = Sampler(one.pid)
        sampler.sample()
        other.stdin.write("\n")
        other.stdin.flush()
        sample_until_it_speaks(one, sampler)
    series = sampler.series()
    assert spent_s(series, "waiting_percent") >= 0.3
    assert spent_s(series, "other_cpu_utilization_percent") >= 0.3
    assert series.num_cores == len(os.sched_getaffinity(0))
