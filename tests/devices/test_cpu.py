import subprocess
import sys

import pytest

from accelbench.devices import cpu, proc
from accelbench.devices.registry import look
from accelbench.schema.vocab import Device

CPUINFO = """processor\t: 0
model name\t: AMD EPYC 9R14
flags\t\t: fpu sse2 avx2 avx512f avx512_bf16 avx512_bf16_not

processor\t: 1
model name\t: another
"""


def test_reads_the_first_processor_and_the_limits_of_the_cgroup(tmp_path, monkeypatch):
    monkeypatch.setattr(proc, "ROOT", tmp_path)
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/cpuinfo").write_text(CPUINFO)
    (tmp_path / "proc/self/cgroup").write_text("0::/\n")
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/cpu.max").write_text("50000 100000\n")
    (tmp_path / "sys/fs/cgroup/memory.max").write_text("123456789\n")
    report = cpu.look()
    assert (report.present, report.name, report.memory_bytes) == (True, "AMD EPYC 9R14", 123456789)
    assert report.details["instruction_sets"] == "avx2 avx512f avx512_bf16"
    assert (report.details["usable_cores"], report.details["cpu_quota"]) == ("1", "0.5")


def test_affinity_counts():
    code = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); "
    code += "from accelbench.devices import cpu; print(cpu.usable_cores())"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "1\n"


@pytest.mark.parametrize("device", Device)
def test_every_device_is_present_or_says_why_not(device):
    report = look(device)
    assert report.device == device
    assert report.present or device != Device.cpu
    assert report.present is (report.reason is None) is (report.count > 0) is bool(report.name)
