"""Gets the report on a device from the device's module, such as `devices.gpu`."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from accelbench.schema.cell import ON_TORCH, Device


@dataclass(frozen=True, kw_only=True)
class DeviceReport:
    """The report on one kind of device on this machine."""

    device: Device
    reason: str | None = None  # why cells can't run on such a device here, and what helps, in one line
    name: str = ""  # name of the hardware; empty if absent
    count: int = 0  # devices of this kind that a process here may use; 0 if absent
    memory_bytes: int | None = None  # memory of the smallest device; None if unknown
    # further facts for users and for `grid.support`; keys are snake_case words with their unit
    details: Mapping[str, str] = field(default_factory=dict)

    @property
    def present(self) -> bool:
        """Whether cells can run on such a device here."""
        return self.reason is None


def absent(device: Device, reason: str) -> DeviceReport:
    """Returns the report on a device that cells can't use on this machine."""
    return DeviceReport(device=device, reason=reason)


FASTEST = (Device.gpu, Device.tpu)  # the fastest first


@cache
def fastest_for(engine: str) -> Device:
    """Returns the fastest kind of device on this machine that the engine can use. Engines without PyTorch use the CPU.

    The search runs once in a process.
    """
    if engine not in ON_TORCH:
        return Device.cpu
    return next((device for device in FASTEST if look(device).present), Device.cpu)


def look(device: Device, **options: Any) -> DeviceReport:
    """Returns the report on `device` on this machine. Gets it without importing a framework or opening a device.

    `options` are the arguments of the function `look` in the device's module.
    """
    # Imported here: the machine may lack libraries that the modules of other devices import.
    module, name = ("cpu", "look_xla") if device == Device.xla_cpu else (device, "look")
    report: DeviceReport = getattr(importlib.import_module(f"accelbench.devices.{module}"), name)(**options)
    return report
