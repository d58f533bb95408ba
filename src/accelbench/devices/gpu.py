"""Finds the NVIDIA GPUs that a CUDA process would use, and checks that the driver supports the installed torch."""

import os
import time
from collections.abc import Callable
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pynvml

from accelbench.devices import packages
from accelbench.devices.registry import DeviceReport, absent
from accelbench.schema.cell import Device

BUSY_PERCENT = 5
NUM_LOOKS, LOOK_S = 4, 0.5  # together longer than the time over which NVML averages utilisation
# Makes a CUDA process number the GPUs as NVML does, so that the sampler reads the GPU that computes.
IN_ORDER = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
Handle = Any  # an opaque pointer of the library
Answer = TypeVar("Answer")


class Gpu(NamedTuple):
    """One GPU, or one MIG instance of a GPU. A value that the driver does not report is None."""

    name: str
    memory_bytes: int | None
    compute_capability: tuple[int, int] | None  # (major, minor), such as (8, 0) for an A100
    # Number of streaming multiprocessors; most drivers report it only for MIG instances.
    multiprocessors: int | None


def look(torch_folder: Path | None = None) -> DeviceReport:
    """Reports on the visible GPUs. If `torch_folder` is None, examines the installed torch."""
    try:
        gpus = visible_gpus()
        driver = pynvml.nvmlSystemGetDriverVersion()
        cuda = pynvml.nvmlSystemGetCudaDriverVersion() // 1000
    except pynvml.NVMLError as error:
        return absent(Device.gpu, f"no NVIDIA driver ({error})")
    if not gpus:
        wanted = os.environ.get("CUDA_VISIBLE_DEVICES")
        hidden = f"CUDA_VISIBLE_DEVICES={wanted!r} leaves no GPU visible"
        return absent(Device.gpu, "no NVIDIA GPU found" if wanted is None else hidden)
    torch_cuda = packages.cuda_of_torch(torch_folder)
    if torch_cuda is None:
        return absent(Device.gpu, "the installed torch is built without CUDA: install a CUDA build of torch")
    # A driver runs every CUDA release of its own major version (NVIDIA's minor version compatibility).
    if int(torch_cuda.split(".")[0]) > cuda:
        return absent(
            Device.gpu, f"driver {driver} supports CUDA {cuda}, torch needs {torch_cuda}: update the driver"
        )
    capability = gpus[0].compute_capability  # every cell uses the first GPU
    details = {"driver": driver, "torch_cuda": torch_cuda}
    details |= {"compute_capability": f"{capability[0]}.{capability[1]}"} if capability else {}
    return DeviceReport(
        device=Device.gpu,
        name=" + ".join(dict.fromkeys(gpu.name for gpu in gpus)),
        count=len(gpus),
        memory_bytes=min((gpu.memory_bytes for gpu in gpus if gpu.memory_bytes is not None), default=None),
        details=details,
    )


def ask(query: Callable[..., Answer], *args: object) -> Answer | None:
    """Returns the driver's answer to a query. Returns None if this GPU or driver does not support the query."""
    try:
        return query(*args)
    except pynvml.NVMLError:
        return None


def visible_handles() -> list[Handle]:
    """Returns the GPUs of CUDA_VISIBLE_DEVICES in its order. If it isn't set, returns all GPUs.

    The variable is a list of indices, UUIDs (or the beginning of a UUID), and UUIDs of MIG instances. Indices are in
    the order of the PCI bus (`IN_ORDER`). The first word that names no GPU ends the list, and later words are
    ignored (CUDA C++ Programming Guide, "CUDA environment variables").

    Raises pynvml.NVMLError: there is no driver.
    """
    # Repeated calls are cheap: the library counts them. It needs no shutdown.
    pynvml.nvmlInit()
    handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
    wanted = os.environ.get("CUDA_VISIBLE_DEVICES")
    if wanted is None:
        return handles
    named = (_named(handles, word.strip()) for word in wanted.split(","))
    return list(takewhile(lambda handle: handle is not None, named))


def first_handles(num: int) -> list[Handle]:
    """Returns at most `num` visible GPUs. Without a driver, the list is empty. If `num` is 0, calls no driver."""
    try:
        return visible_handles()[:num] if num else []
    except pynvml.NVMLError:
        return []


def visible_gpus() -> list[Gpu]:
    """The visible GPUs, as the driver describes them."""
    gpus = []
    for handle in visible_handles():
        # A MIG instance has the compute capability of its GPU.
        whole = ask(pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle, handle) or handle
        memory = ask(pynvml.nvmlDeviceGetMemoryInfo, handle)
        attributes = ask(pynvml.nvmlDeviceGetAttributes, handle)
        gpu = Gpu(
            name=ask(pynvml.nvmlDeviceGetName, handle) or "NVIDIA GPU",
            memory_bytes=None if memory is None else memory.total,
            compute_capability=ask(pynvml.nvmlDeviceGetCudaComputeCapability, whole),
            multiprocessors=None if attributes is None else attributes.multiprocessorCount,
        )
        gpus.append(gpu)
    return gpus


def in_use(num: int) -> str | None:
    """Returns text about the first busy GPU, such as `77 % of GPU 0 was used by python (pid 12, 5.1 GB)`.

    Looks at the first `num` GPUs. Returns None if all are idle, even if processes have memory on them.
    """
    for index, handle in enumerate(first_handles(num)):
        processes = ask(pynvml.nvmlDeviceGetComputeRunningProcesses, handle)
        if not processes:
            continue
        for _ in range(NUM_LOOKS):
            # The utilisation includes the last cell for up to a second. A MIG instance reports none.
            rates = ask(pynvml.nvmlDeviceGetUtilizationRates, handle)
            if rates is None or rates.gpu < BUSY_PERCENT:
                break
            time.sleep(LOOK_S)
        if rates is None or rates.gpu >= BUSY_PERCENT:
            share = "a part" if rates is None else f"{rates.gpu} %"
            return f"{share} of GPU {index} was used by {', '.join(map(_described, processes))}"
    return None


def _described(process: Any) -> str:
    name = ask(pynvml.nvmlSystemGetProcessName, process.pid)
    used = process.usedGpuMemory
    memory = "" if used is None else f", {used / 1e9:.1f} GB"
    return f"{os.path.basename(name) if name else 'a process'} (pid {process.pid}{memory})"


def _named(handles: list[Handle], word: str) -> Handle | None:
    if word.isdigit():
        return dict(enumerate(handles)).get(int(word))
    if word.startswith("MIG-"):
        return ask(pynvml.nvmlDeviceGetHandleByUUID, word)
    if not word.startswith("GPU-"):
        return None
    return next(
        (handle for handle in handles if (ask(pynvml.nvmlDeviceGetUUID, handle) or "").startswith(word)), None
    )
