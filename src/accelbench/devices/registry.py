"""Every device, by its word."""

import importlib

from accelbench.devices.base import DeviceReport
from accelbench.schema.vocab import Device


def look(device: Device) -> DeviceReport:
    """What this machine has of `device`, and if nothing, why not. Imports no framework and opens no device."""
    # By name, and only now: a machine that measures one of them need not have what the others ask.
    report: DeviceReport = importlib.import_module(f"accelbench.devices.{device}").look()
    return report
