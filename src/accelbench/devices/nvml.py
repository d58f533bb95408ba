"""NVIDIA's management library: which GPUs a CUDA process here would see, in its order."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import pynvml

Handle = Any  # an opaque pointer of the library
Answer = TypeVar("Answer")


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """One GPU, or one MIG instance of it. What its driver doesn't report is None."""

    name: str
    memory_bytes: int | None
    compute_capability: tuple[int, int] | None  # (major, minor), such as (8, 0) for an A100
    power_limit_w: float | None
    multiprocessors: int | None  # how many; most drivers report it of a MIG instance alone


def ask(query: Callable[..., Answer], *args: object) -> Answer | None:
    """The answer to one query; None if this GPU or driver doesn't support it."""
    try:
        return query(*args)
    except pynvml.NVMLError:
        return None


def visible_handles(nvml: Any = pynvml, environ: Mapping[str, str] = os.environ) -> list[Handle]:
    """The GPUs that CUDA_VISIBLE_DEVICES leaves visible, in its order; all GPUs if it is unset.

    The variable is read as CUDA reads it (CUDA C++ Programming Guide, "CUDA environment variables"): indices, UUIDs
    or prefixes of them, MIG UUIDs; the first word that names no GPU ends the list, a repeated word empties it.
    Indices follow the PCI bus, as with `CUDA_DEVICE_ORDER=PCI_BUS_ID`, and as by default if all GPUs are of one
    model.

    Raises:
        pynvml.NVMLError: there is no NVIDIA driver, or it doesn't answer.
    """
    # Repeated calls are cheap: the library counts them, and it needs no shutdown before the process ends.
    nvml.nvmlInit()
    handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
    wanted = environ.get("CUDA_VISIBLE_DEVICES")
    if wanted is None:
        return handles
    words = [word.strip() for word in wanted.split(",")]
    found: list[Handle] = []
    for position, word in enumerate(words):
        handle = _named(nvml, handles, word)
        if handle is None:
            break
        if word in words[:position]:
            return []
        found.append(handle)
    return found


def describe(handle: Handle, nvml: Any = pynvml) -> Gpu:
    """One GPU as its driver describes it."""
    memory = ask(nvml.nvmlDeviceGetMemoryInfo, handle)
    # A MIG instance has the compute capability and the power limit of the whole GPU.
    whole = ask(nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle, handle) or handle
    attributes = ask(nvml.nvmlDeviceGetAttributes, handle)
    limit_mw = ask(nvml.nvmlDeviceGetEnforcedPowerLimit, whole)
    return Gpu(
        name=ask(nvml.nvmlDeviceGetName, handle) or "NVIDIA GPU",
        memory_bytes=memory.total if memory is not None else None,
        compute_capability=ask(nvml.nvmlDeviceGetCudaComputeCapability, whole),
        power_limit_w=limit_mw / 1000 if limit_mw is not None else None,
        multiprocessors=attributes.multiprocessorCount if attributes is not None else None,
    )


def visible_gpus(nvml: Any = pynvml, environ: Mapping[str, str] = os.environ) -> list[Gpu]:
    """The visible GPUs, described. Raises pynvml.NVMLError: there is no NVIDIA driver, or it doesn't answer."""
    return [describe(handle, nvml) for handle in visible_handles(nvml, environ)]


def _named(nvml: Any, handles: list[Handle], word: str) -> Handle | None:
    if word.isdigit():
        return handles[int(word)] if int(word) < len(handles) else None
    if word.startswith("MIG-"):
        return ask(nvml.nvmlDeviceGetHandleByUUID, word)
    if not word.startswith("GPU-"):
        return None
    matches = [handle for handle in handles if (ask(nvml.nvmlDeviceGetUUID, handle) or "").startswith(word)]
    return matches[0] if len(matches) == 1 else None
