"""What is found of a machine: its devices, allocators and interpreters; in files and an NVML that are not its own."""

import os
import re
import subprocess
import sys
import tomllib
from functools import partial

import pytest

from accelbench.devices import allocators, cpu, energy_counters, gpu, packages, proc, tpu
from accelbench.devices.allocators import Running
from accelbench.devices.interpreters import PYTHONS, TORCH, look, other
from accelbench.errors import UserError
from accelbench.schema.cell import Allocator
from fakes import TESTS, make_environment, write_files

from .fakes import FakeNvml


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A function that writes files of the machine, such as those in /proc, instead of the real ones."""
    monkeypatch.setattr(proc, "ROOT", tmp_path)
    return partial(write_files, tmp_path)


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


def look_for_gpus(folder, cuda="12.8"):
    (folder / "version.py").write_text(f"__version__ = '2.9.0'\ncuda: Optional[str] = {cuda!r}\nhip = None\n")
    return gpu.look(folder)


@pytest.mark.parametrize(
    ("nvml", "visible", "cuda", "reason"),
    [
        (FakeNvml(driver=False), None, "12.8", "no NVIDIA driver (NVML Shared Library Not Found)"),
        (FakeNvml(), "", "12.8", "CUDA_VISIBLE_DEVICES='' leaves no GPU visible"),
        (FakeNvml(gpus=()), None, "12.8", "no NVIDIA GPU found"),
        (FakeNvml(), None, None, "the installed torch is built without CUDA: install a CUDA build of torch"),
        (FakeNvml(cuda=11040), None, "12.8", "driver 580.65.06 supports CUDA 11, torch needs 12.8: update the driver"),
    ],
)
def test_why_there_is_no_gpu(tmp_path, monkeypatch, nvml, visible, cuda, reason):
    nvml.answer(monkeypatch, visible)
    report = look_for_gpus(tmp_path, cuda)
    assert (report.present, report.reason, report.count, report.memory_bytes) == (False, reason, 0, None)
    FakeNvml(cuda=12020).answer(monkeypatch)
    assert look_for_gpus(tmp_path).present


def test_the_weakest_of_several_counts_and_one_missing_figure_leaves_the_rest(tmp_path, monkeypatch):
    FakeNvml(("A100", "A100", "A30")).answer(monkeypatch)
    report = look_for_gpus(tmp_path)
    assert (report.present, report.name, report.count, report.memory_bytes) == (True, "A100 + A30", 3, 40 * 10**9)
    assert report.details["compute_capability"] == "8.0"
    FakeNvml(failing=["nvmlDeviceGetMemoryInfo", "nvmlDeviceGetCudaComputeCapability"]).answer(monkeypatch)
    report = look_for_gpus(tmp_path)
    assert (report.present, report.name, report.memory_bytes) == (True, "NVIDIA A100", None)
    assert set(report.details) == {"driver", "torch_cuda"}


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        *((None, [0, 1, 2]), ("", []), ("2,0", [2, 0]), (" 1 , 2 ", [1, 2]), ("0,-1,2", [0]), ("0,7,2", [0])),
        *(("GPU-ab", [1]), ("GPU-cccc-3,0", [2, 0]), ("none", [])),
    ],
)
def test_visible_as_cuda_reads_it(monkeypatch, wanted, names):
    FakeNvml(("A", "B", "C")).answer(monkeypatch, wanted)
    assert gpu.visible_handles() == [f"handle-{index}" for index in names]


def test_a_mig_instance_has_its_gpus_capability(monkeypatch):
    for wanted, found in (("MIG-1", [((8, 0), 42)]), ("MIG-2", [])):
        FakeNvml().answer(monkeypatch, wanted)
        assert [(each.compute_capability, each.multiprocessors) for each in gpu.visible_gpus()] == found


def look_for_tpus(root, devices, nodes=()):
    for index, numbers in enumerate(devices):
        files = zip(("vendor", "device"), numbers.split(), strict=True)
        root({f"sys/bus/pci/devices/0000:00:{index:02x}.0/{name}": number for name, number in files})
    root({f"dev/{node}": "" for node in nodes})
    return tpu.look()


V5E, CARD, OTHER = "0x1ae0 0x0063", "0x1ae0 0x0042", "0x10de 0x0063"  # Google's network card, and another vendor's


@pytest.mark.parametrize(
    ("devices", "nodes", "name", "num"),
    [
        (["0x1ae0 0x0027"] * 4 + [CARD], ["accel0"], "TPU v2 or v3", "4"),
        ([V5E] * 8, ["vfio/vfio", "vfio/0"], "TPU v5e", "8"),
    ],
)
def test_chips_and_their_cores_are_counted(root, monkeypatch, devices, nodes, name, num):
    monkeypatch.setattr(packages, "folder", lambda name: name if name == "torch_xla" else None)
    report = look_for_tpus(root, devices, nodes)
    assert (report.present, report.name, report.count, report.details) == (True, name, 8, {"chips": num})


def test_why_there_is_no_tpu(root, monkeypatch):
    monkeypatch.setattr(packages, "folder", lambda name: name if name == "torch_xla" else None)
    assert look_for_tpus(root, [CARD, OTHER], ["vfio/vfio"]).reason == "no TPU chip (none on the PCI bus)"
    no_node = "the TPU has no /dev/accel* or /dev/vfio/*: run the container with --privileged"
    assert look_for_tpus(root, [V5E] * 4).reason == no_node
    monkeypatch.setattr(packages, "version", {"torch_tpu": "0.2.0"}.get)
    assert look_for_tpus(root, [V5E], ["accel0"]).details == {"chips": "4", "torch_tpu": "0.2.0"}
    for what in ("folder", "version"):
        monkeypatch.setattr(packages, what, lambda name: None)
    assert tpu.look().reason.startswith("neither torch_tpu nor torch_xla is installed: pip install torch_tpu")


def rapl(name, joules, kind="package-0"):
    files = {"name": kind, "energy_uj": f"{joules}000000", "max_energy_range_uj": "1000000000"}
    return {f"sys/class/powercap/intel-rapl:{name}/{file}": text for file, text in files.items()}


def test_packages_are_added_up_their_parts_are_not_and_a_wrap_is_undone(root):
    root(rapl("0", 100) | rapl("0:0", 50, "core") | rapl("1", 900, "package-1") | rapl("2", 10, "psys"))
    counter = energy_counters.find_rapl()
    assert counter() == 0
    root(rapl("0", 130) | rapl("1", 20, "package-1"))  # 1000 joules and it starts again
    assert counter() == pytest.approx(30 + 120)
    assert counter() == pytest.approx(150)


def test_a_counter_that_may_not_be_read_is_none_and_gpus_are_read_from_nvml(root, tmp_path, monkeypatch):
    assert energy_counters.find_rapl() is None
    root(rapl("0", 100))
    (tmp_path / "sys/class/powercap/intel-rapl:0/energy_uj").unlink()
    assert energy_counters.counters(0) == {}
    FakeNvml(("A", "B")).answer(monkeypatch)
    readers = energy_counters.counters(2)
    assert {name: read() for name, read in readers.items()} == {"gpu_0_energy_j": 1234.567, "gpu_1_energy_j": 1235.567}
    for nvml in (FakeNvml(failing=["nvmlDeviceGetTotalEnergyConsumption"]), FakeNvml(driver=False)):
        nvml.answer(monkeypatch)
        assert energy_counters.counters(1) == {}


TELL = "from accelbench.devices.allocators import running; ran = running(); print(ran.word, ran.library, sep='|')"


def installed(allocator):
    missing = allocators.why_missing(allocator)
    return pytest.param(allocator, marks=pytest.mark.skipif(missing is not None, reason=str(missing)))


def ran(variables):
    plain = {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "GLIBC_TUNABLES")}
    env = {**plain, **variables, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", TELL], env=env, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return Running(*done.stdout.strip().split("|"))


@pytest.mark.skipif(sys.platform != "linux", reason="needs glibc")
def test_without_variables_glibc_gives_memory_and_maps_large_blocks_by_themselves(monkeypatch):
    assert allocators.environment(Allocator.default, {"LD_PRELOAD": "libmine.so"}) == {}
    assert ran({}).word == "glibc"
    monkeypatch.setenv("GLIBC_TUNABLES", allocators.REUSE)  # too late for this process
    assert allocators.running().word == "glibc"
    reuse = allocators.environment(Allocator.glibc_reuse, {"GLIBC_TUNABLES": "glibc.malloc.check=0"})
    assert reuse["GLIBC_TUNABLES"].startswith("glibc.malloc.check=0:")


@pytest.mark.parametrize("allocator", [installed(word) for word in Allocator if word != Allocator.default])
def test_a_new_process_has_the_wanted_allocator_and_what_the_user_preloads_stays(allocator):
    variables = allocators.environment(allocator, {"LD_PRELOAD": "libm.so.6"})
    assert allocator == Allocator.glibc_reuse or variables["LD_PRELOAD"].endswith(":libm.so.6")
    running = ran(variables)
    assert running.word == allocator
    assert ".so." in running.library


LEARNS = """
import ctypes
from accelbench.devices.allocators import note_thresholds, restore_thresholds, threshold_values
from accelbench.measuring.checks import Observations

library = ctypes.CDLL("libc.so.6")
library.malloc.restype, library.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]

def learn(mib):
    library.free(library.malloc(ctypes.c_size_t(mib << 20)))

def learnt(mib):
    learn(mib)
    return threshold_values()

learn(1)
note_thresholds()
noted = threshold_values()
assert noted[1] >= 1 << 20 and noted[0] == 2 * noted[1], noted
assert learnt(8)[1] >= 8 << 20
restore_thresholds()
assert threshold_values() == noted
before = learnt(4)  # it goes on learning
assert 4 << 20 <= before[1] < 8 << 20, before
with Observations().checking():  # the check of a cell teaches it nothing
    learnt_in_check = learnt(16)
assert learnt_in_check != before == threshold_values()
"""


def test_malloc_learns_on_from_the_thresholds_that_were_restored():
    subprocess.run([sys.executable, "-c", LEARNS], check=True)


def test_an_environment_has_its_own_versions_and_is_named_by_its_folder(tmp_path, monkeypatch):
    made = make_environment(tmp_path / "new/.venv", timm="99.0")
    (tmp_path / "clone/timm").mkdir(parents=True)
    (tmp_path / "clone/timm/__init__.py").touch()
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "clone")])  # installed here to be edited
    monkeypatch.chdir(tmp_path)
    assert [other(word) for word in ("new/.venv", "new/.venv/bin/python")] == [str(made)] * 2
    assert [other(word) for word in (sys.prefix, sys.executable)] == [None, None]
    interpreter = look(str(made))
    assert (interpreter.version, interpreter.versions["timm"]) == (sys.version.split()[0], "99.0")
    assert interpreter.modules["timm"].startswith(str(made))
    assert {"numpy", "torch", "pynvml"} <= set(interpreter.modules)


def test_what_is_no_interpreter_is_a_mistake(tmp_path):
    (tmp_path / "elf").write_bytes(b"\x7fELF of another machine")
    (tmp_path / "elf").chmod(0o755)
    messages = {
        "/bin/echo": "not a Python interpreter (it does not run Python code)",
        "/bin/true": "not a Python interpreter (it does not run Python code)",
        str(tmp_path): "no interpreter in its bin/: name an interpreter, or the folder of its environment",
        str(tmp_path / "elf"): "not a Python interpreter (Exec format error)",
        str(tmp_path / "gone"): "no such file or folder: name an interpreter, or the folder of its environment",
    }
    for python, problem in messages.items():
        with pytest.raises(UserError, match=f"^{re.escape(f'python={python}: {problem}')}$"):
            look(python)


def test_the_releases_of_python_and_torch_are_those_of_the_project():
    project = tomllib.loads((TESTS.parent / "pyproject.toml").read_text())["project"]
    assert f"torch>={'.'.join(map(str, TORCH))}" in project["dependencies"]
    asked = project["requires-python"]
    least, below = (".".join(map(str, version)) for version in PYTHONS)
    assert asked == f">={least},<{below}"
