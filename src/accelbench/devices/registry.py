"""The reports of the device modules, by the name of the device."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from accelbench.schema.vocab import ON_TORCH, Device


@dataclass(frozen=True, kw_only=True)
class DeviceReport:
    """The report on one kind of device on this machine."""

    device: Device
    present: bool  # whether cells can run on such a device here
    reason: str | None = None  # if not present, why not, and what helps, in one line
    name: str = ""  # name of the hardware; empty if absent
    count: int = 0  # devices of this kind that a process here may use; 0 if absent
    memory_bytes: int | None = None  # memory of the smallest device; None if unknown
    # further facts for users and for `grid.support`; keys are snake_case words with their unit
    details: Mapping[str, str] = field(default_factory=dict)


def absent(device: Device, reason: str) -> DeviceReport:
    """The report on a device that cells can't use here."""
    return DeviceReport(device=device, present=False, reason=reason)


FASTEST = (Device.gpu, Device.tpu, Device.xpu, Device.mps)  # the fastest first


@cache
def fastest_for(engine: str) -> Device:
    """The fastest kind of device here for an engine. Only engines on PyTorch use other devices than the CPU.

    The search runs once in a process.
    """
    if engine not in ON_TORCH:
        return Device.cpu
    return next((device for device in FASTEST if look(device).present), Device.cpu)


def look(device: Device, **options: Any) -> DeviceReport:
    """The report on `device` on this machine. `options` are arguments of the device's module.

    Making the report imports no framework and opens no device.
    """
    # Imported here: the machine may lack libraries that the modules of other devices import.
    report: DeviceReport = importlib.import_module(f"accelbench.devices.{device}").look(**options)
    return report
