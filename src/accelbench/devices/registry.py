"""What each device module says of the machine, found by the device's word."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from accelbench.schema.vocab import ON_TORCH, Device


@dataclass(frozen=True, kw_only=True)
class DeviceReport:
    """One kind of device on this machine."""

    device: Device
    present: bool  # whether cells can run on such a device here
    reason: str | None = None  # why not, in one line that says what helps, if anything does; None if present
    name: str = ""  # the name of the hardware; empty if absent
    count: int = 0  # devices of this kind that a process here may use; 0 if absent
    memory_bytes: int | None = None  # memory of one device, the smallest; None if unknown
    # further facts for users and for `grid.support`; keys are snake_case words with their unit
    details: Mapping[str, str] = field(default_factory=dict)


def absent(device: Device, reason: str) -> DeviceReport:
    """The report of a device that cells can't run on here."""
    return DeviceReport(device=device, present=False, reason=reason)


FASTEST = (Device.gpu, Device.tpu, Device.xpu, Device.mps)  # the fastest first


@cache
def fastest_for(engine: str) -> Device:
    """The fastest kind of device here for an engine. Others than PyTorch's run anywhere on the CPU, and few elsewhere.

    It is looked up once per process.
    """
    if engine not in ON_TORCH:
        return Device.cpu
    return next((device for device in FASTEST if look(device).present), Device.cpu)


def look(device: Device, **known: Any) -> DeviceReport:
    """The report of `device` here, whose module gets what is `known`. Imports no framework and opens no device."""
    # Imported only now: a machine need not have the libraries that other devices' modules import.
    report: DeviceReport = importlib.import_module(f"accelbench.devices.{device}").look(**known)
    return report
