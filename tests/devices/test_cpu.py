import subprocess
import sys

import pytest

from accelbench.devices import cpu, proc

CPUINFO = """processor\t: 0
model name\t: AMD EPYC 9R14
flags\t\t: fpu sse2 avx2 avx512f avx512_bf16 avx512_bf16_not

processor\t: 1
model name\t: another
"""
GROUPS = "proc/self/cgroup"
V1 = "4:memory:/docker/0123\n3:cpu,cpuacct:/docker/0123\n0::/"
TIGHTEST = {"a/b/cpu.max": "max 100000", "a/cpu.max": "150000 100000"}
TIGHTEST |= {"a/b/memory.max": "8000000000", "a/memory.max": "max"}
OWN_MOUNT = {"cpu/cpu.cfs_quota_us": "200000", "cpu/cpu.cfs_period_us": "100000"}
OWN_MOUNT["memory/memory.limit_in_bytes"] = "4000000000"
UNLIMITED = OWN_MOUNT | {"cpu/cpu.cfs_quota_us": "-1", "memory/memory.limit_in_bytes": "9223372036854771712"}


def in_group(files):
    return {f"sys/fs/cgroup/{name}": text for name, text in files.items()}


def test_reads_the_first_processor_and_the_limits_of_the_cgroup(root):
    limits = in_group({"cpu.max": "50000 100000", "memory.max": "123456789"})
    root({"proc/cpuinfo": CPUINFO, GROUPS: "0::/", **limits})
    report = cpu.look()
    assert (report.present, report.name, report.memory_bytes) == (True, "AMD EPYC 9R14", 123456789)
    assert report.details["instruction_sets"] == "avx2 avx512f avx512_bf16"
    assert (report.details["usable_cores"], report.details["cpu_quota"]) == ("1", "0.5")


@pytest.mark.parametrize(
    ("groups", "files", "quota", "limit"),
    [
        ("0::/a/b", TIGHTEST, 1.5, 8_000_000_000),  # of the group and its ancestors
        (V1, OWN_MOUNT, 2.0, 4_000_000_000),  # a container that sees only its own mount
        (V1, UNLIMITED, None, None),
        (None, {}, None, None),
    ],
)
def test_limits_of_the_cgroup(root, groups, files, quota, limit):
    root(in_group(files) if groups is None else {GROUPS: groups, **in_group(files)})
    assert proc.cpu_quota() == (None if quota is None else pytest.approx(quota))
    assert proc.memory_limit_bytes() == limit


@pytest.mark.parametrize(
    ("groups", "name", "text", "seconds"),
    [
        ("0::/a", "a/cpu.stat", "usage_usec 9\nthrottled_usec 1500000", 1.5),
        ("3:cpu:/", "cpu/cpu.stat", "nr_periods 3\nthrottled_time 1500000000", 1.5),
        ("0::/a", "b/cpu.stat", "throttled_usec 1500000", None),
    ],
    ids=["v2", "v1", "unknown"],
)
def test_time_without_quota_is_read_in_seconds(root, groups, name, text, seconds):
    root({GROUPS: groups, **in_group({name: text})})
    assert proc.throttled_s(proc.throttle_files()) == seconds


def test_affinity_counts():
    code = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); "
    code += "from accelbench.devices import cpu; print(cpu.usable_cores())"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "1\n"
