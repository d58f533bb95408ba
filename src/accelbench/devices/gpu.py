"""NVIDIA GPUs: present if both their driver and the installed torch support them."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pynvml

from accelbench.devices import packages
from accelbench.devices.nvml import Gpu, describe, visible_handles
from accelbench.devices.registry import DeviceReport, absent
from accelbench.schema.vocab import Device


def look(nvml: Any = pynvml, environ: Mapping[str, str] = os.environ, torch_folder: Path | None = None) -> DeviceReport:
    """The visible GPUs' report; without `torch_folder`, the installed torch counts."""
    try:
        handles = visible_handles(nvml, environ)
        driver, cuda = nvml.nvmlSystemGetDriverVersion(), nvml.nvmlSystemGetCudaDriverVersion()
    except pynvml.NVMLError as error:
        return absent(Device.gpu, f"no NVIDIA driver found ({error})")
    if not handles:
        wanted = environ.get("CUDA_VISIBLE_DEVICES")
        hidden = f"CUDA_VISIBLE_DEVICES={wanted!r} leaves no GPU visible"
        return absent(Device.gpu, "no NVIDIA GPU found" if wanted is None else hidden)
    torch_cuda = torch_cuda_version(torch_folder or packages.folder("torch"))
    if torch_cuda is None:
        return absent(Device.gpu, "the installed torch is built without CUDA: install a CUDA build of it")
    # A driver runs every CUDA release of its own major version (NVIDIA's minor version compatibility).
    if int(torch_cuda.split(".")[0]) > cuda // 1000:
        return absent(
            Device.gpu, f"driver {driver} supports CUDA {cuda // 1000}, torch needs {torch_cuda}: update the driver"
        )
    return _report([describe(handle, nvml) for handle in handles], driver, torch_cuda)


def torch_cuda_version(torch_folder: Path | None) -> str | None:
    """The CUDA release that torch was built for, such as `12.8`, without importing it; None for a CPU build."""
    if torch_folder is None:
        return None
    try:
        text = (torch_folder / "version.py").read_text()
    except OSError:
        return None
    match = re.search(r"^cuda\b.*= '([\d.]+)'$", text, re.MULTILINE)
    return match[1] if match else None


def _report(gpus: Sequence[Gpu], driver: str, cuda: str) -> DeviceReport:
    capability = gpus[0].compute_capability  # of the first one, which every cell uses
    memories = [gpu.memory_bytes for gpu in gpus if gpu.memory_bytes is not None]
    details = {"driver": driver, "torch_cuda": cuda}
    if capability is not None:
        details["compute_capability"] = f"{capability[0]}.{capability[1]}"
    for index, gpu in enumerate(gpus):
        if gpu.power_limit_w is not None:
            details[f"gpu_{index}_power_limit_w"] = f"{gpu.power_limit_w:g}"
    return DeviceReport(
        device=Device.gpu,
        present=True,
        name=" + ".join(dict.fromkeys(gpu.name for gpu in gpus)),
        count=len(gpus),
        memory_bytes=min(memories, default=None),
        details=details,
    )
