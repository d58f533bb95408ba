import os
import subprocess
import sys

from accelbench.devices import cpu

CPUINFO = """processor\t: 0
model name\t: AMD EPYC 9R14
flags\t\t: fpu sse2 avx2 avx512f avx512_bf16 avx512_bf16_not

processor\t: 1
model name\t: another
"""


def test_reads_name_and_instruction_sets_of_the_first_processor(tmp_path):
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text(CPUINFO)
    report = cpu.look(tmp_path)
    assert report.present
    assert report.name == "AMD EPYC 9R14"
    assert report.details["instruction_sets"] == "avx2 avx512f avx512_bf16"


def test_the_real_machine_agrees_with_the_system(tmp_path):
    report = cpu.look()
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert report.memory_bytes is not None
    assert 0 < report.memory_bytes <= pages
    assert report.name
    assert 1 <= int(report.details["usable_cores"]) <= int(report.details["logical_cores"])


def test_limits_of_a_cgroup_count(tmp_path):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/\n")
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/cpu.max").write_text("50000 100000\n")
    (tmp_path / "sys/fs/cgroup/memory.max").write_text("123456789\n")
    report = cpu.look(tmp_path)
    assert report.memory_bytes == 123456789
    assert report.details["usable_cores"] == "1"
    assert report.details["cpu_quota"] == "0.5"


def test_affinity_counts():
    code = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); " + (
        "from accelbench.devices import cpu; print(cpu.usable_cores())"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "1"
