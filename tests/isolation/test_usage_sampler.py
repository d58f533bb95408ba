import itertools
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from statistics import median

import pytest

from accelbench.isolation.usage_sampler import Sampler, descendants
from accelbench.schema.measurement import SystemSeries
from devices.fakes import FakeNvml

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
