"""The CPU: its name and features, and the cores and memory that this process may use."""

import math
import os
import platform
from dataclasses import replace

from accelbench.devices import packages, proc
from accelbench.devices.registry import DeviceReport, absent
from accelbench.errors import how_to_install
from accelbench.schema.cell import Device

# The features by which oneDNN chooses its kernels, as /proc/cpuinfo names them.
INSTRUCTION_SETS = (
    "avx2",
    "avx_vnni",
    "avx512f",
    "avx512_vnni",
    "avx512_bf16",
    "avx512_fp16",
    "amx_bf16",
    "amx_fp16",
    "amx_int8",
)
# With any of these features, a CPU multiplies 8-bit integers faster than fp32 numbers.
FAST_INTEGERS = ("avx_vnni", "avx512_vnni", "amx_int8")


def has_fast_integers(report: DeviceReport) -> bool:
    """Is true if the reported CPU multiplies 8-bit integers faster than fp32 numbers."""
    return any(name in FAST_INTEGERS for name in report.details.get("instruction_sets", "").split())


def look() -> DeviceReport:
    """Returns the report on the CPU."""
    import psutil  # not at the top: the bare worker imports this module, and may lack psutil

    quota = proc.cpu_quota()
    memory_bytes = psutil.virtual_memory().total
    flags = _cpuinfo().get("flags", "").split()
    details = {
        "physical_cores": str(psutil.cpu_count(logical=False) or ""),
        "usable_cores": str(usable_cores()),
        "cpu_quota": "" if quota is None else f"{quota:g}",
        "instruction_sets": " ".join(name for name in INSTRUCTION_SETS if name in flags),
    }
    return DeviceReport(
        device=Device.cpu,
        name=name(),
        count=1,
        memory_bytes=min(memory_bytes, proc.memory_limit_bytes() or memory_bytes),
        details={key: value for key, value in details.items() if value},
    )


def look_xla() -> DeviceReport:
    """Returns the report on torch_xla's CPU device. It runs the same software as a TPU, where torch_xla is built."""
    if (version := packages.version("torch_xla")) is None:
        how = f"{how_to_install('xla')} (for Linux on x86-64 only)"
        return absent(Device.xla_cpu, f"torch_xla is not installed: {how}")
    report = look()
    details = {"torch_xla": version, "usable_cores": report.details["usable_cores"]}
    return replace(report, device=Device.xla_cpu, name=f"XLA on {report.name}", details=details)


def name() -> str:
    """Returns the processor's name. If the name is unknown, returns the name of the architecture."""
    return _cpuinfo().get("model name") or platform.machine()


def usable_cores() -> int:
    """Returns how many logical cores this process may use.

    This is the number of cores in its affinity mask. If the quota of its cgroup is lower, it is the quota, rounded up.
    """
    cores = len(os.sched_getaffinity(0))
    quota = proc.cpu_quota()
    return cores if quota is None else min(cores, math.ceil(quota))


def _cpuinfo() -> dict[str, str]:
    text = (proc.ROOT / "proc/cpuinfo").read_text()
    pairs = (line.partition(":") for line in text.split("\n\n")[0].splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}
